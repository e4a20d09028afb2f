"""Show what a file contains: container, chip, tasks and buffers of a program; ports and operations of a model."""

from __future__ import annotations

import argparse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.chips import get_chip
from openane.cli.files import container, open_file, programs
from openane.cli.model_options import compiled_already, model_options
from openane.cli.output import say, say_json, shape_text, table
from openane.cli.shapes import require_one_shape
from openane.errors import ProgramError
from openane.formats.bundled import Bundle
from openane.program import Buffer, Program
from openane.wording import byte_text, plural

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.graph import Graph

Document = dict[str, Any]

KINDS = {"hwx": "engine program in an HWX file", "anec": "engine program in an ANEC file", "bundle": "compiled bundle"}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the verb's options."""
    parser.add_argument("file", metavar="FILE", type=Path, help="a program (.hwx, .anec), a bundle or a model")
    model_options(parser, "--shape", "--value", "--limit")
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def run(options: argparse.Namespace) -> int:
    """Prints the description."""
    require_one_shape(options)
    document = describe_file(options.file, dict(options.shape), options.limit, dict(options.value))
    say_json(document) if options.json else say("\n".join(_text(document)))
    return 0


def describe_file(path: Path, shapes: dict[str, tuple[int, ...]] | None = None, limit: int | None = None,
                  values: dict[str, float | list[float]] | None = None) -> Document:
    """The description of a file as plain data; `shapes` are for inputs that a model leaves open, `values` for those
    that are constants of the run, `limit` is how much it may make of itself."""
    kind = container(path)
    document: Document = {"file": str(path), "kind": kind or "model"}
    for given, option in ((shapes, "--shape"), (values, "--value")):
        if given and kind is not None:
            raise compiled_already(path, option)
    if kind is None:
        graph = open_file(path, shapes, values=values, limit=limit)
        assert not isinstance(graph, Program)
        return document | describe_graph(graph)  # type: ignore[arg-type]
    if kind == "bundle":
        model = open_file(path)
        assert not isinstance(model, Program)
        targets: Mapping[str, Model] = model.targets  # type: ignore[union-attr]
        document |= {"digest": Bundle(path).seal.digest, "targets": list(targets), "functions": [
            describe_function(name, each) for target in targets.values() for name, each in target.functions.items()]}
    return document | {"programs": [describe_program(program) for program in programs(path)]}


def describe_function(name: str, model: Model) -> Document:
    """Steps, ports and states of a function of a bundle, and where its operations run."""
    counts = Counter(str(entry.where) for entry in model.report)
    return {
        "name": name, "target": model.target, "steps": len(model.steps), "programs": len(model.programs),
        "host_operations": [{"operation": e.operation, "reason": e.reason} for e in model.host_operations],
        "operations": dict(counts.most_common()),
        **{f"{side}s": [{"name": p.name, "dtype": p.dtype, "shape": list(p.shape)} for p in ports]
           for side, ports in (("input", model.inputs), ("output", model.outputs),
                               ("state", [state.port for state in model.states]))},
    }


def describe_program(program: Program) -> Document:
    """Chip, origin, tasks, operations, buffers and constants of an engine program."""
    return {
        "name": program.name, "chip": program.chip, "origin": program.origin, "tasks": len(program.tasks),
        "text_bytes": len(program.text()), "constant_bytes": len(program.constants),
        **({"kernel_bytes": len(program.constants) - program.kernel_starts[0]} if program.kernel_starts else {}),
        "operations": _operations(program),
        "buffers": [_buffer(buffer) for buffer in sorted(program.buffers, key=lambda b: b.slot)],
    }


def describe_graph(graph: Graph) -> Document:
    """Ports, operations by how often they occur, and bytes of constants of a model."""
    def port(value: Any) -> Document:
        dtype = graph.metadata.get(f"dtype:{value.name}", value.dtype)
        return {"name": value.name, "dtype": dtype, "shape": list(value.shape)}

    from openane.quantization.layers import constant_bytes

    return {
        "name": graph.name, "inputs": [port(value) for value in graph.inputs],
        "outputs": [port(value) for value in graph.outputs],
        "operations": dict(Counter(node.op for node in graph.nodes).most_common()),
        "constant_bytes": constant_bytes(graph),
    }


def _operations(program: Program) -> dict[str, int]:
    chip = get_chip(program.chip)
    names: Counter[str] = Counter()
    for task in program.tasks:
        try:
            names[type(chip.operation(task.words)).__name__] += 1
        except ProgramError:
            names["not described"] += 1
    return dict(names.most_common())


def _buffer(buffer: Buffer) -> Document:
    document: Document = {"name": buffer.name, "role": str(buffer.role), "slot": buffer.slot, "bytes": buffer.size}
    if buffer.layout is not None:
        layout = buffer.layout
        document |= {"dtype": str(layout.dtype), "shape": list(layout.shape), "strides": list(layout.strides),
                     "interleave": layout.interleave}
    return document


def _text(document: Document) -> Iterator[str]:
    yield f"{document['file']}: {KINDS.get(document['kind'], document['kind'])}"
    if document["kind"] == "model":
        yield from _model_text(document)
    if document["kind"] == "bundle":
        yield f"digest      {document['digest']}"
        yield from _targets_text(document["targets"], document["functions"])
    for program in document.get("programs", ()):
        yield from _program_text(program)


def _model_text(document: Document) -> Iterator[str]:
    yield f"constants   {byte_text(document['constant_bytes'])}"
    ports = [(role, port["name"], port["dtype"], shape_text(port["shape"]))
             for role in ("input", "output") for port in document[f"{role}s"]]
    yield from table(ports)
    yield f"operations  {_counts(document['operations'])}"


def _chips(target: str) -> str:
    """`h13 (a14, m1)`: a generation and the chips it is in."""
    from openane.cli.summary import target_text

    return target_text(target)


def _targets_text(targets: Sequence[str], functions: Sequence[Document]) -> Iterator[str]:
    """What a bundle was compiled for, and its functions; the ports, which are the same for every target, once."""
    several = len(targets) > 1
    yield f"{'targets' if several else 'target':<11} {', '.join(map(_chips, targets))}"
    for function in functions:
        first, *ports = _function_text(function, f" for {function['target']}" if several else "")
        yield first
        yield from ports if function["target"] == targets[0] else []
        yield from (f"  host: {e['operation']}: {e['reason']}" for e in function["host_operations"])


def _function_text(function: Document, target: str) -> Iterator[str]:
    yield (f"function    {function['name']}{target}: {plural(function['steps'], 'step')}, "
           f"{plural(function['programs'], 'program')}, {plural(len(function['host_operations']), 'host operation')} "
           f"({_counts(function['operations'])})")
    yield from table([(role, p["name"], p["dtype"], shape_text(p["shape"])) for role in ("input", "output", "state")
                      for p in function[f"{role}s"]], indent="  ")


def _program_text(program: Document) -> Iterator[str]:
    yield f"program     {program['name']}"
    yield f"chip        {program['chip']}"
    yield from (f"{key:<11} {value}" for key, value in program["origin"].items() if key != "file")
    yield f"tasks       {program['tasks']} ({_counts(program['operations'])}), {byte_text(program['text_bytes'])}"
    yield f"constants   {byte_text(program['constant_bytes'])}"
    if "kernel_bytes" in program:
        yield f"kernels     {byte_text(program['kernel_bytes'])} of them, read by the kernel DMA alone"
    if program["buffers"]:
        yield plural(len(program["buffers"]), "buffer")
        rows = [(b["role"], b["name"], b["slot"], b["bytes"], b.get("dtype", "-"), shape_text(b.get("shape", "-")),
                 "/".join(map(str, b.get("strides", "-")))) for b in program["buffers"]]
        yield from table(rows, heading=("role", "name", "slot", "bytes", "type", "NxCxDxHxW", "strides in bytes"),
                         indent="  ")


def _counts(histogram: dict[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in histogram.items()) or "none"
