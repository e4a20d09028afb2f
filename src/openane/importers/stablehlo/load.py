"""StableHLO text walked in order: calls followed, constants computed, every other operation handed to its function."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.graph import Graph, Value
from openane.graph.budget import Budget
from openane.importers.files import read_file
from openane.importers.shapes import Shapes, agreeing
from openane.importers.stablehlo.bytecode import MAGIC, text_of
from openane.importers.stablehlo.expansions import complement_of
from openane.importers.stablehlo.operators import ELEMENTWISE, IN_ANY_ORDER, OPERATORS
from openane.importers.stablehlo.step import Handler, Shared, StableStep, StableTensor
from openane.importers.stablehlo.syntax import Function, Module, StableBlock, StableStatement, parse
from openane.importers.stablehlo.values import StableType
from openane.importers.step import TypedErrors, unknown_operator
from openane.ops.accuracy import CLOSE, FUNCTIONS
from openane.ops.build import GraphBuilder
from openane.record_classes import dataclass, many_records

MOST_STATEMENTS = 1 << 18
"""Operations that are walked, those of a function once for every call: functions that call each other twice could
stand for any number."""
DEEPEST = 64
"""How many calls may be under way."""
_STORED = {"f64": ("fp64", "fp16"), "f32": ("fp32", "fp16"), "f16": ("fp16", "fp16"), "bf16": ("fp16", "fp16"),
           "i1": ("bool", "bool"), "i8": ("int8", "int8"), "i16": ("int16", "int16"), "ui8": ("uint8", "uint8"),
           "i64": ("int64", "int32")}
"""Names of the types that ports have, in the program and in the graph; int32 for all others."""
_IDENTITIES = ("@Sharding", "@SPMDFullToShardShape", "@SPMDShardToFullShape")
_KNOWN: Mapping[str, object] = {**OPERATORS, "call": None, "composite": None, "custom_call": None}


def is_exported(source: object) -> bool:
    """Whether an object is what `jax.export.export` gives, told without importing JAX."""
    return type(source).__name__ == "Exported" and type(source).__module__.startswith("jax.")


def load_stablehlo(source: str | Path | Any, shapes: Shapes | None = None, limit: int | None = None) -> Graph:
    """The graph of a StableHLO module: a file of text or bytecode, the text itself (a str with a line break), or what
    `jax.export.export` gives. `shapes` may repeat those of inputs; `limit` is how many bytes of constants may be
    computed from others.

    Floating point becomes fp16, integers int32; `Graph.metadata["dtype:PORT"]` keeps the program's types. FormatError
    for text that breaks its format, GraphError for inconsistent modules and weights that overflow fp16,
    UnsupportedError naming operation, place and what would pass for the rest, and for bytecode where jaxlib is not
    installed.
    """
    with many_records():
        module = parse(_text(source), _KNOWN)
        return agreeing(_Walk(module, limit).graph(), shapes or {}, "the module")


def _text(source: str | Path | Any) -> str:
    if not isinstance(source, str | Path):
        return str(source.mlir_module())
    if isinstance(source, str) and "\n" in source:
        return source
    data = read_file(Path(source), "module")
    if data.startswith(MAGIC):
        return text_of(data)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise FormatError("StableHLO text is not UTF-8", offset=error.start, expected="UTF-8",
                          found=error.reason) from None


@dataclass(slots=True)
class _Walk:
    """State of one import."""

    module: Module
    limit: int | None
    shared: Shared = field(init=False)
    walked: int = 0
    depth: int = 0
    trying: bool = False
    """Whether a region is tried with samples: tensors of another shape than it states."""

    def __post_init__(self) -> None:
        self.shared = Shared(GraphBuilder("main", {FUNCTIONS: CLOSE}), Budget(stated=self.limit), {}, {}, {})

    def graph(self) -> Graph:
        """The graph of the function main."""
        functions = self.module.functions
        main = functions.get("@main") or (next(iter(functions.values())) if len(functions) == 1 else None)
        if main is None:
            raise GraphError("the module has no function @main; it has "
                             f"{', '.join(list(functions)[:8]) or 'no function at all'}")
        names = self._distinct([self.module.called(place) or name[1:]
                                for place, (name, _) in zip(main.arguments, main.block.arguments, strict=True)], set())
        given = [self._input(name, kind) for name, (_, kind) in zip(names, main.block.arguments, strict=True)]
        found = self.block(main.block, given)
        results = self._results(main, found, set(names))
        self.shared.budget.state(self.shared.builder.metadata)
        return self.shared.builder.finish(results)

    def _distinct(self, names: Sequence[str], taken: set[str]) -> list[str]:
        found: list[str] = []
        for name in names:
            plain = re.sub(r"[^A-Za-z0-9_]+", "_", name).strip("_") or "port"
            number, chosen = 1, plain
            while chosen in taken:
                number, chosen = number + 1, f"{plain}_{number}"
            taken.add(chosen)
            found.append(chosen)
        return found

    def _input(self, name: str, kind: StableType) -> StableTensor:
        stated, stored = _STORED.get(kind.element, ("int32", "int32"))
        builder = self.shared.builder
        builder.metadata[f"dtype:{name}"] = stated
        value = builder.input(name, stored, kind.shape)
        if stored in ("int8", "int16", "uint8"):
            value = builder.single("cast", f"{name}_whole", x=value, dtype="int32")
        return StableTensor(value, kind)

    def _results(self, main: Function, found: Sequence[StableTensor], inputs: set[str]) -> dict[str, Value]:
        """Outputs by the names JAX has for them."""
        if len(found) != len(main.types):
            raise GraphError(f"the function states {len(main.types)} results and returns {len(found)}")
        named = [str(each.get("jax.result_info") or f"result{at}") for at, each in enumerate(main.results)]
        results: dict[str, Value] = {}
        for name, tensor in zip(self._distinct(named, inputs), found, strict=True):
            label = f"StableHLO output {name!r}"
            step = self._step(StableStatement("return", (name,), 0, types=(tensor.type,)), [tensor], label)
            results[name] = step.as_value(step.as_stated(tensor))
            self.shared.builder.metadata[f"dtype:{name}"] = _STORED.get(tensor.type.element, ("int32", ""))[0]
        return results

    def block(self, block: StableBlock, given: Sequence[StableTensor],
              outer: Mapping[str, StableTensor] | None = None) -> list[StableTensor]:
        """What a block gives for arguments; `outer` is what is known around it. GraphError where names or types do
        not fit."""
        if len(given) != len(block.arguments) or (not self.trying and any(
                tensor.type.shape != kind.shape for tensor, (_, kind) in zip(given, block.arguments, strict=True))):
            raise GraphError("a function is given other arguments than it states: "
                             f"{[list(each.shape) for each in given]}")
        known = {**(outer or {}), **{name: tensor for tensor, (name, _) in zip(given, block.arguments, strict=True)}}
        for statement in block.statements:
            self.walked += 1
            if self.walked > MOST_STATEMENTS:
                raise UnsupportedError(self.module.label(statement), "a module has a bounded number of operations, "
                                       "each counted once for every call", limit=MOST_STATEMENTS, found="more")
            results = self._statement(statement, known)
            known.update(zip(statement.results, results, strict=True))
        return [self._known(name, known, "return") for name in block.results]

    def _known(self, name: str, known: Mapping[str, StableTensor], label: str) -> StableTensor:
        if name not in known:
            raise GraphError(f"{label}: {name[:40]} is not known here")
        return known[name]

    def _step(self, statement: StableStatement, operands: Sequence[StableTensor], label: str,
              known: Mapping[str, StableTensor] | None = None) -> StableStep:
        return StableStep(label, statement.op.removeprefix("chlo."), self.shared.builder, statement, operands,
                          self.shared, lambda block, given: self._tried(block, given, known or {}),
                          lambda block, given: self.block(block, given, known))

    def _tried(self, block: StableBlock, given: Sequence[StableTensor],
               known: Mapping[str, StableTensor]) -> list[StableTensor]:
        before, self.trying = self.trying, True
        try:
            return self.block(block, given, known)
        finally:
            self.trying = before

    def _statement(self, statement: StableStatement, known: Mapping[str, StableTensor]) -> list[StableTensor]:
        """The results of one operation, whose shapes must be those the text states."""
        label = self.module.label(statement)
        operands = [self._known(name, known, label) for name in statement.operands]
        step = self._step(statement, operands, label, known)
        with TypedErrors(label, "its operands are not understood"):
            found = self._found(step)
        if len(found) != len(statement.results) or len(found) != len(statement.types):
            raise GraphError(f"{label}: states {len(statement.types)} results for {len(statement.results)} names, "
                             f"and has {len(found)}")
        made = []
        for each, kind in zip(found, statement.types, strict=True):
            held = (each.held if isinstance(each, StableTensor) else each).shape
            order = each.order if isinstance(each, StableTensor) else ()
            tensor = StableTensor(each.held if isinstance(each, StableTensor) else each,
                            kind._replace(shape=held) if self.trying else kind, order)
            if not self.trying and not _stands_for(held, _in_order(kind, order).shape):
                raise GraphError(f"{label}: states {list(kind.shape)}, its operands give {list(held)}")
            made.append(tensor)
            if isinstance(tensor.held, Value):
                self.shared.origins.setdefault(tensor.held.name, (statement.op, tuple(operands)))
        return made

    def _found(self, step: StableStep) -> Sequence[Any]:
        """The results of an operation. Nothing is computed for no elements."""
        types = step.statement.types
        if types and not self.trying and all(0 in kind.shape for kind in types):
            return [np.zeros(kind.shape, kind.dtype) for kind in types]
        return self._computed(step)

    def _computed(self, step: StableStep) -> Sequence[Any]:
        statement = step.statement
        if step.op == "call":
            return self._called(step, str(step.attribute("callee")))
        if step.op == "composite":
            named = str(step.attribute("name"))
            if named not in OPERATORS:
                return self._called(step, str(step.attribute("decomposition")))
            statement.op = named
        if step.op == "custom_call":
            target = str(step.attribute("callee", "call_target_name"))
            if f"@{target.removeprefix('@')}" not in _IDENTITIES:
                raise UnsupportedError(step.label, "calls to other libraries are not imported", found=target[:60],
                                       remedy="write the function with JAX's own operations")
            statement.op = "optimization_barrier"
        handler = OPERATORS.get(statement.op)
        if handler is None:
            raise unknown_operator(step.label, statement.op[:80], OPERATORS, "write it with others")
        if statement.op == "select":
            return self._selected(step, handler)
        if statement.op in ELEMENTWISE:
            return self._each(step, handler)
        if statement.op not in IN_ANY_ORDER:
            step.operands = [step.as_stated(each) for each in step.operands]
        return _several(handler(step))

    def _selected(self, step: StableStep, handler: Handler) -> Sequence[Any]:
        """The results of a choice, which may be the last step of a function that was written out."""
        found = self._each(step, handler)
        result = found[0] if isinstance(found[0], StableTensor) else StableTensor(found[0], step.type)
        if self.trying or step.kind != "float" or not isinstance(result.held, Value):
            return found
        self.shared.origins.setdefault(result.held.name, ("select", tuple(step.operands)))
        source = complement_of(result, self.shared)
        if source is None:
            return found
        (complement,) = _several(OPERATORS["chlo.erfc"](replace(step, operands=[source])))
        return (StableTensor(complement, step.type, result.order),)

    def _each(self, step: StableStep, handler: Handler) -> Sequence[Any]:
        """The results of an operation on single elements, whose order is that of the first operand that has one."""
        order = next((each.order for each in step.operands if each.order), ())
        if not order:
            return _several(handler(step))
        step.operands = [StableTensor(step.in_order(each, order), _in_order(each.type, order)) if each.shape else each
                         for each in step.operands]
        step.statement = replace(step.statement, types=tuple(_in_order(kind, order) for kind in step.statement.types))
        found = [each.held if isinstance(each, StableTensor) else each for each in _several(handler(step))]
        return [StableTensor(held, kind, order) for held, kind in zip(found, step.statement.types, strict=True)]

    def _called(self, step: StableStep, name: str) -> list[StableTensor]:
        """A function's results, as if it were written out here."""
        function = self.module.functions.get(name)
        if function is None:
            raise GraphError(f"{step.label}: there is no function {name[:60]}")
        if self.depth >= DEEPEST:
            raise UnsupportedError(step.label, "functions call each other too deeply", limit=DEEPEST, found="more")
        self.depth += 1
        try:
            return self.block(function.block, step.operands)
        finally:
            self.depth -= 1


def _several(found: Any) -> Sequence[Any]:
    return found if isinstance(found, tuple | list) else (found,)


def _in_order(kind: StableType, order: Sequence[int]) -> StableType:
    """The type of a tensor whose axes lie in another order."""
    return kind._replace(shape=tuple(kind.shape[axis] for axis in order)) if len(order) == len(kind.shape) else kind


def _stands_for(held: Sequence[int], shape: Sequence[int]) -> bool:
    """Whether a tensor is as large as a shape, or of extents 1 where it is repeated."""
    return len(held) == len(shape) and all(extent in (1, whole) for extent, whole in zip(held, shape, strict=True))
