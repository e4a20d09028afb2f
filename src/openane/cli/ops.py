"""List the operations of models: where each runs, under which rules, and how its encoding is known.

A NAME shows one operation with its parameters and rules.
"""

from __future__ import annotations

import argparse
import inspect
from collections import Counter
from collections.abc import Iterator
from typing import Any

from openane.chips import DEFAULT_TARGET, get_chip
from openane.chips.machines import find
from openane.cli.output import say, say_json, table
from openane.ops import REQUIRED, Op, OperationEvidence, Parameter, all_ops, get_op
from openane.ops.gradients import stopped
from openane.ops.rules import sentence

Document = dict[str, Any]

MEANINGS = {
    OperationEvidence.APPLE: "Apple's compiler emits the same engine operations for it",
    OperationEvidence.COMPOSED: "built from engine operations that Apple's programs prove",
    OperationEvidence.INFERRED: "uses an encoding that no Apple-made program at hand shows",
    OperationEvidence.FOLDED: "computed when the model is compiled, or by the host where what it is made of is known "
                              "only at run time; it never runs on the engine",
}
GRADIENTS = {
    "rule": "it has a rule of its own",
    "of its parts": "it is taken apart, and its parts have rules",
    "ends": "its results are integers or booleans, or constant nearly everywhere: the gradient ends there",
    "none": "there is none yet: a loss that depends on weights by way of it is refused",
    "constant": "it depends on constants alone",
}
PREAMBLE = (
    "# Operations", "",
    "What the compiler knows of each MIL operation. Everything listed runs on the engine, wholly, under the rules that",
    "are named; a model that breaks one is refused with that sentence. How the engine's side is known:", "",
    *(f"- *{kind}*: {meaning}." for kind, meaning in MEANINGS.items()), "",
    "What `openane.training.gradient` makes of it (see [gradients](gradients.md)):", "",
    *(f"- *{kind}*: {meaning}." for kind, meaning in GRADIENTS.items()), "",
    "This page is generated: `ane ops --markdown`.", "",
)


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("name", metavar="NAME", nargs="?", help="one operation; all without it")
    parser.add_argument("--target", metavar="CHIP", default=DEFAULT_TARGET,
                        help="machine, chip or generation whose limits fill the rules (default: %(default)s)")
    parser.add_argument("--markdown", action="store_true", help="print the support page")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints the list, the support page, or one operation."""
    chosen = [get_op(options.name)] if options.name else list(all_ops().values())
    documents = [document(op, options.target) for op in chosen]
    if options.json:
        say_json(documents[0] if options.name else documents)
    elif options.markdown:
        say("\n".join(_markdown(documents)))
    elif options.name:
        say("\n".join(_one(documents[0])))
    else:
        say("\n".join(_overview(documents)))
    return 0


def document(op: Op, target: str = DEFAULT_TARGET) -> Document:
    """An operation as plain data: parameters with defaults, how it runs, its rules in words, the evidence, what becomes
    of a gradient."""
    limits = get_chip(find(target).generation).limits
    return {"operation": op.name, "summary": _summary(op), "runs": _runs(op), "evidence": str(_evidence(op)),
            "gradient": _gradient(op),
            "accuracy": str(op.unary.bound) if op.unary is not None else "", "note": op.note,
            "parameters": [_parameter(parameter) for parameter in op.parameters],
            "rules": [sentence(rule, limits) for rule in op.rules]}


def _evidence(op: Op) -> OperationEvidence:
    return OperationEvidence.FOLDED if op.lower is None and op.decompose is None else op.evidence


def _gradient(op: Op) -> str:
    """One of GRADIENTS."""
    if op.gradient is not None:
        return "ends" if op.gradient is stopped else "rule"
    if op.decompose is not None or op.expand is not None:
        return "of its parts"
    return "constant" if _of_constants(op) else "none"


def _runs(op: Op) -> str:
    if op.decompose is not None:
        return "as other operations"
    if _evidence(op) is OperationEvidence.FOLDED:
        return "when compiled" + ", or on the host" * (not _of_constants(op))
    return "shape and strides" if op.view is True else "engine"


def _of_constants(op: Op) -> bool:
    """Whether an operation takes constants alone, so that nothing of it is left to compute at run time."""
    return op.name.startswith("constexpr_")


def _summary(op: Op) -> str:
    """The sentence behind the name in the docstring of the operation's module, when it is about this one alone."""
    module = inspect.getmodule(op.infer) or inspect.getmodule(op.reference)
    first = inspect.cleandoc(getattr(module, "__doc__", None) or "").partition("\n")[0]
    name, _, text = first.partition(": ")
    return text if name == op.name else ""


def _parameter(parameter: Parameter) -> Document:
    found: Document = {"name": parameter.name, "constant": parameter.const,
                       "optional": parameter.default is not REQUIRED}
    if parameter.default not in (REQUIRED, None):
        found["default"] = parameter.default
    return found


def _signature(found: Document) -> str:
    parts = []
    for parameter in found["parameters"]:
        text = str(parameter["name"])
        if parameter["optional"]:
            text += f"={parameter['default']!r}" if "default" in parameter else "=..."
        parts.append(text)
    return f"{found['operation']}({', '.join(parts)})"


def _overview(documents: list[Document]) -> Iterator[str]:
    rows = [(d["operation"], d["runs"], d["evidence"], d["gradient"], len(d["rules"])) for d in documents]
    yield from table(rows, heading=("operation", "runs", "evidence", "gradient", "rules"))
    counts = Counter(d["evidence"] for d in documents)
    yield f"{len(documents)} operations: " + ", ".join(f"{count} {kind}" for kind, count in sorted(counts.items()))


def _one(found: Document) -> Iterator[str]:
    yield _signature(found)
    if found["summary"]:
        yield f"  {found['summary']}"
    yield f"  runs: {found['runs']}; evidence: {found['evidence']} ({MEANINGS[OperationEvidence(found['evidence'])]})"
    yield f"  gradient: {found['gradient']} ({GRADIENTS[found['gradient']]})"
    if found["accuracy"]:
        yield f"  accuracy: {found['accuracy']}"
    if found["note"]:
        yield f"  {found['note']}"
    yield from (f"  - {rule}" for rule in found["rules"])


def _markdown(documents: list[Document]) -> Iterator[str]:
    yield from PREAMBLE
    yield "| operation | runs | evidence | gradient |"
    yield "| --- | --- | --- | --- |"
    yield from (f"| [{d['operation']}](#{d['operation']}) | {d['runs']} | {d['evidence']} | {d['gradient']} |"
                for d in documents)
    for found in documents:
        yield from ("", f"## {found['operation']}", "")
        if found["summary"]:
            yield found["summary"]
            yield ""
        yield f"`{_signature(found)}`"
        if found["accuracy"]:
            yield from ("", f"Accuracy: {found['accuracy']}.")
        if found["note"]:
            yield from ("", found["note"])
        if found["rules"]:
            yield ""
            yield from (f"- {rule}" for rule in found["rules"])
