"""Builds graphs node by node: operands checked, defaults filled in, result types inferred, names made unique."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from mmap import mmap
from typing import Any

import numpy as np

from openane.errors import GraphError
from openane.graph import Graph, Node, Operand, RoundedArray, RoundedConstant, TensorType, Value, mil_type, numpy_type
from openane.graph.graph import substituted
from openane.graph.states import MARK, READ, WRITERS
from openane.ops import get_op
from openane.ops.built_before import Built, Types, again, keep, kept, met_before, told
from openane.ops.late_constant import LateConstant, peak_to_round
from openane.ops.operands import (
    MAXIMUM_ELEMENTS,
    PLAIN,
    default_data,
    element_type,
    refusal,
    require_known,
    result_types,
)
from openane.ops.spec import REQUIRED, Op, Parameter

Given = Any
"""An operand as a caller states it: a Value, a tuple of them, or Python and numpy data that become a constant."""


class GraphBuilder:
    """Collects inputs and nodes; `finish` gives the graph.

        builder = GraphBuilder()
        x = builder.input("x", "fp16", (1, 3, 32, 32))
        y = builder.add("relu", x=x)
        graph = builder.finish({"y": y})
    """

    def __init__(self, name: str = "main", metadata: Mapping[str, str] | None = None) -> None:
        self.name, self.metadata = name, dict(metadata or {})
        self._inputs: list[Value] = []
        self._nodes: list[Node] = []
        self._names: set[str] = set()
        self._repeats: dict[str, int] = {}
        self._folded: dict[int, Value] = {}

    def input(self, name: str, dtype: str, shape: Iterable[int]) -> Value:
        """A new function input. GraphError when the name is taken or the type is not a static tensor."""
        extents = tuple(shape)
        numpy_type(dtype)
        type_ = TensorType(dtype, extents)
        if not all(isinstance(extent, int | np.integer) and extent > 0 for extent in extents):
            raise GraphError(f"input {name!r}: every dimension must be a positive number; found {list(extents)}")
        if type_.elements > MAXIMUM_ELEMENTS:
            raise GraphError(f"input {name!r}: must hold at most {MAXIMUM_ELEMENTS} elements; found {type_}")
        if name in self._names:
            raise GraphError(f"input {name!r}: the name is taken")
        value = Value(self._unique(name), TensorType(dtype, tuple(int(extent) for extent in extents)))
        self._inputs.append(value)
        return value

    def state(self, name: str, dtype: str, shape: Iterable[int]) -> Value:
        """A tensor that persists between runs (see graph.states), for `read` and `write`. GraphError as for `input`."""
        value = self.input(name, dtype, shape)
        self.metadata[f"{MARK}{name}"] = "true"
        return value

    def read(self, state: Value) -> Value:
        """What a state holds at this point of the program."""
        result = Value(self._unique(f"{state.name}_read"), state.type)
        self._nodes.append(Node(READ, {"input": state}, (result,), result.name))
        return result

    def write(self, state: Value, data: Value) -> None:
        """Replaces what a state holds. GraphError when the types differ."""
        if data.type != state.type:
            raise GraphError(f"state {state.name!r} is {state.type}; {data.name!r} is {data.type}")
        self._nodes.append(Node(WRITERS[0], {"input": state, "data": data}, (), self._unique(f"{state.name}_write")))

    def constant(self, data: Given, name: str | None = None) -> Value:
        """A constant: a str, or an array as it is; Python numbers become fp32, int32 or bool."""
        kept = isinstance(data, str | RoundedArray)
        return _constant(data if kept else _plain_array(data), self._unique(name or "const"))

    def late(self, digits: np.ndarray, name: str) -> Value | None:
        """A constant in fp16 of numbers in float32, which are rounded when somebody asks for it; None of few numbers,
        and where fp16 does not hold one of them."""
        peak = peak_to_round(digits)
        return None if peak is None else LateConstant.of(self._unique(name), _owned(digits), peak)

    def add(self, op_name: str, name: str | None = None, source: str = "",
            **operands: Given) -> Value | tuple[Value, ...]:
        """A new node; its result, or a tuple when there are several.

        `name` names node and result (made unique), `source` says where the node came from. Data becomes constants of
        the type the parameter asks for; `None` leaves an operand out. UnsupportedError for an unknown operation,
        GraphError naming operation and operand when one is unknown, missing or does not fit.
        """
        op = get_op(op_name)
        base = self._unique(name or op_name)
        given = {key: value for key, value in operands.items() if value is not None}
        try:
            values, types = self._built(op, base, given)
        except GraphError as error:
            label = Node(op_name, {}, (), name or "", source).label
            raise GraphError(f"{label}: {str(error).removeprefix(f'{op_name}: ')}") from None
        outputs = tuple([Value(base if i == 0 else self._unique(f"{base}_{i}"), t) for i, t in enumerate(types)])
        self._nodes.append(Node(op_name, values, outputs, base, source))
        if op_name.startswith("constexpr_"):
            self._folded |= standing_for(outputs)
        return outputs[0] if len(outputs) == 1 else outputs

    def single(self, op_name: str, name: str | None = None, source: str = "", **operands: Given) -> Value:
        """As `add`, for operations with one result. GraphError when there are several."""
        result = self.add(op_name, name, source, **operands)
        if isinstance(result, tuple):
            raise GraphError(f"{op_name} has {len(result)} results; take them from add")
        return result

    def finish(self, outputs: Mapping[str, Value] | Iterable[Value]) -> Graph:
        """The verified graph. A mapping names the outputs; a value called otherwise is passed through an identity of
        that name. GraphError when the structure is wrong or a name is taken."""
        values = self._named(outputs) if isinstance(outputs, Mapping) else tuple(outputs)
        graph = Graph(tuple(self._inputs), tuple(self._nodes), values, self.name, self.metadata)
        graph.verify()
        return graph

    def _built(self, op: Op, base: str, given: Mapping[str, Given]) -> tuple[dict[str, Operand], Types]:
        """The operands of a node, and the types of its results: as those of another one were where it is like that."""
        key = None if self._folded else told(op.name, given)
        known = None if key is None else kept().get(key)
        if known is not None:
            return self._again(op, base, given, known), known.types
        values = self._operands(op, base, given)
        if key is None or key in kept() or not met_before(key):
            return values, result_types(op, self._foreseen(values))
        return values, keep(key, given, values, partial(result_types, op))

    def _again(self, op: Op, base: str, given: Mapping[str, Given], known: Built) -> dict[str, Operand]:
        """The operands of a node: constants as another one has them, or as they are given."""
        operands: dict[str, Operand] = {}
        for name, stated in known.operands:
            if stated is not None:
                label = f"{base}_{name}"
                operands[name] = again(stated, self._unique(label) if label in self._names else label)
                self._names.add(label)
            elif isinstance(operand := given[name], Value):
                operands[name] = (operand,) if op.named[name].variadic else operand
            else:
                operands[name] = tuple(operand) if isinstance(operand, tuple | list) else \
                    _constant(operand, self._unique(f"{base}_{name}"))
        return operands

    def _foreseen(self, operands: Mapping[str, Operand]) -> Mapping[str, Operand]:
        """Operands, results of operations on constants as the constants that compilation makes of them."""
        known = self._folded
        return {name: tuple(known.get(id(value), value) for value in operand) if isinstance(operand, tuple)
                else known.get(id(operand), operand) for name, operand in operands.items()} if known else operands

    def _named(self, outputs: Mapping[str, Value]) -> tuple[Value, ...]:
        renamed: dict[int, Value] = {}
        results = []
        for name, value in outputs.items():
            if value.name != name:
                if name in self._names:
                    renamed |= self._give_way(name)
                while id(value) in renamed:
                    value = renamed[id(value)]
                value = self.single("identity", name, x=value)
            results.append(value)
        return tuple(results)

    def _give_way(self, name: str) -> dict[int, Value]:
        """Calls the result of a node that has a name something else, so that an output can have it; what it is called
        then, by the id of the old value. GraphError when something else has the name."""
        old = next((value for node in self._nodes for value in node.outputs if value.name == name), None)
        if old is None:
            raise GraphError(f"output {name!r}: the name is taken")
        new = replace(old, name=self._unique(name))
        self._nodes = [replace(node, outputs=tuple(new if value is old else value for value in node.outputs))
                       if old in node.outputs else substituted(node, {id(old): new}) for node in self._nodes]
        self._names.discard(name)
        return {id(old): new}

    def _operands(self, op: Op, base: str, given: Mapping[str, Given]) -> dict[str, Operand]:
        require_known(op, given)
        dtype = element_type(op.parameters, given)
        operands: dict[str, Operand] = {}
        for parameter in op.parameters:
            key = parameter.name
            if key in given:
                operands[key] = self._operand(op, base, parameter, given[key], dtype)
            elif parameter.default is not None and parameter.default is not REQUIRED:
                data = default_data(op.name, parameter, dtype)
                operands[key] = _constant(data, self._unique(f"{base}_{key}"))
        return operands

    def _operand(self, op: Op, base: str, parameter: Parameter, given: Given, dtype: str | None) -> Operand:
        if isinstance(given, Value):
            return (given,) if parameter.variadic else given
        if isinstance(given, tuple | list) and (parameter.variadic or any(isinstance(item, Value) for item in given)):
            return tuple(item if isinstance(item, Value) else self._data(op, base, parameter, item, dtype)
                         for item in given)
        return self._data(op, base, parameter, given, dtype)

    def _data(self, op: Op, base: str, parameter: Parameter, given: Given, dtype: str | None) -> Value:
        if isinstance(given, RoundedArray):
            data = convert(op.name, parameter, given.data, dtype)
            given = RoundedArray(data, given.stated) if data is given.data else data
        elif not isinstance(given, str):
            data = convert(op.name, parameter, given, dtype)
            longer = parameter.const and type(given) is float and data.dtype == np.float16 and np.isfinite(data) \
                and float(data) != given
            given = RoundedArray(data, np.array(given, np.float32)) if longer else data
        return _constant(given, self._unique(f"{base}_{parameter.name}"))

    def _unique(self, base: str) -> str:
        if base not in self._names:
            self._names.add(base)
            return base
        name, count = base, self._repeats.get(base, 0)
        while name in self._names:
            count += 1
            name = f"{base}_{count}"
        self._repeats[base] = count
        self._names.add(name)
        return name


def standing_for(results: Sequence[Value]) -> dict[int, Value]:
    """For weights that are known when they are decompressed, constants of their types that take no memory, by id of the
    result. Masks have none: shapes depend on what they hold."""
    kinds = {id(value): numpy_type(value.dtype) for value in results}
    return {id(value): Value(value.name, value.type, np.broadcast_to(np.zeros((), kinds[id(value)]), value.shape))
            for value in results if kinds[id(value)].kind == "f"}


def convert(op: str, parameter: Parameter, given: Given, dtype: str | None) -> np.ndarray:
    """Data as the constant array `parameter` asks for; "tensor" parameters take element type `dtype`.

    GraphError when a number does not survive: fractions or large values where integers are asked for.
    """
    if (quick := _whole_numbers(parameter, given)) is not None:
        return quick
    array = _plain_array(given)
    if array.dtype.kind not in "fiub":
        raise refusal(op, parameter.name, "must be numbers", f"numpy type {array.dtype}")
    if parameter.kind == "own":
        return array
    if parameter.kind == "tensor":
        wanted = dtype or {"float64": "fp32", "int64": "int32"}.get(array.dtype.name)
    else:
        wanted = PLAIN.get(parameter.kind, parameter.kind)
    if wanted == "string":
        raise refusal(op, parameter.name, "must be a string", array.dtype)
    if wanted is None or array.dtype == numpy_type(wanted):
        return array
    with np.errstate(all="ignore"):
        result = array.astype(numpy_type(wanted))
    exact = wanted.startswith("fp") or np.array_equal(result, array)
    if not exact or (wanted == "bool") != (array.dtype == np.bool_):
        raise refusal(op, parameter.name, f"must hold {wanted} values", f"{array.dtype} {array.flat[:8].tolist()}")
    return result


def _whole_numbers(parameter: Parameter, given: Given) -> np.ndarray | None:
    """What `convert` makes of Python integers where int32 is asked for, as most operands are; None for all else."""
    if PLAIN.get(parameter.kind, parameter.kind) != "int32":
        return None
    whole = type(given) is int or (type(given) in (list, tuple) and all(type(item) is int for item in given))
    try:
        return np.array(given, np.int32) if whole else None
    except OverflowError:
        return None


def _plain_array(data: Given) -> np.ndarray:
    """Data as an array; Python numbers (not numpy's) become fp32 and int32."""
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise GraphError(f"constant data is not an array: {error}") from None
    if isinstance(data, np.ndarray | np.generic):
        return array
    with np.errstate(all="ignore"):
        narrow = array.astype({"f": np.float32, "i": np.int32}.get(array.dtype.kind, array.dtype))
    return narrow if array.dtype.kind == "f" or np.array_equal(narrow, array) else array


def _constant(data: np.ndarray | RoundedArray | str | None, name: str) -> Value:
    if isinstance(data, RoundedArray):
        type_ = TensorType(mil_type(data.data.dtype), data.data.shape)
        return RoundedConstant(name, type_, data.data, stated=_owned(data.stated))
    if isinstance(data, np.ndarray):
        return Value(name, TensorType(mil_type(data.dtype), data.shape), data)
    return Value(name, TensorType("string", ()), data)


def _owned(array: np.ndarray) -> np.ndarray:
    """The array, or a copy where it is seen in a mapped file, which somebody may write over later."""
    base: object = array
    while isinstance(base, np.ndarray):
        base = base.base
    held = base.obj if isinstance(base, memoryview) else base
    return array.copy() if isinstance(held, mmap) else array
