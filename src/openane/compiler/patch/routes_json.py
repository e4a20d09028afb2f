"""The routes of a model as the file `routes.json` of a bundle or of a cache entry.

The file names every constant once; everything else refers to it by its number in that list:

    {"version": 1, "functions": {NAME: {"constants": [CONSTANT...], "routes": [ROUTE...]}}}

    CONSTANT = [name, dtype, shape, complete, number]
    ROUTE    = [weight, extents, bias, [[step, operand...]...], biased, [PIECE...]]
    PIECE    = [program, offset, form, view, bias view, lanes, table, streams]
    VIEW     = [offset, shape, strides], or [shape, numbers] where elements were picked

`complete` says whether all routes of the constant are known, `number` is its value where it is a single number, else
null. An operand of a step is the number of a constant, a list of numbers, or null where it is left out.

A file may be damaged, or made to do harm. What is read is therefore checked against the programs it belongs to: new
weights are written nowhere but into their constants, and patching takes no more memory than those have.
"""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np

from openane.chips import Limits
from openane.chips.coefficients import HALFWORD
from openane.compiler.patch.patchable import FILE
from openane.compiler.weights.layout_records import (
    ConstantForm,
    ConstantPiece,
    ConstantRecord,
    Fold,
    FoldOperation,
    Picked,
    Route,
    Routes,
    WeightView,
)
from openane.engine import Geometry
from openane.errors import FormatError
from openane.graph import NUMPY_TYPES, Graph
from openane.program import Program

VERSION = 1
LARGEST = 1 << 26
"""The most bytes a file of routes may have."""
MOST = 1 << 31
"""Every constant has fewer elements."""
MASKED = 8
"""The most weights that one byte of constants can stand for: zero-skipping streams have a bit for each weight."""


def write_routes(functions: Mapping[str, tuple[Routes, Graph]]) -> bytes:
    """The file's bytes: routes by function, and the graph that has the constants as they are now."""
    document = {"version": VERSION, "functions": {name: _written(*pair) for name, pair in functions.items()}}
    return json.dumps(document, separators=(",", ":")).encode()


def read_routes(data: bytes, function: str, programs: Sequence[Program], limits: Limits) -> Routes:
    """The routes of one function, whose programs are `programs`, made for a chip of these limits. A file of another
    version gives no routes, and `refused` of the result says so. FormatError when the file is malformed, or when a
    route leads out of the programs."""
    if len(data) > LARGEST:
        raise FormatError(f"{FILE} is too large", expected=f"at most {LARGEST} bytes", found=len(data))
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{FILE} is not JSON: {error}") from None
    version = document.get("version") if isinstance(document, dict) else None
    if not isinstance(version, int):
        raise FormatError(f"{FILE} states no version", expected=VERSION, found=version)
    if version != VERSION:
        return Routes(refused=f"{FILE} is of version {version}, and version {VERSION} is read")
    try:
        if function not in document["functions"]:
            return Routes(refused=f"{FILE} has nothing of function {function!r}")
        return _read(document["functions"][function], [len(program.constants) for program in programs], limits)
    except (KeyError, TypeError, ValueError, IndexError, AttributeError, OverflowError, zlib.error) as error:
        raise FormatError(f"{FILE} is incomplete or malformed: {type(error).__name__} {error}") from None


def _written(routes: Routes, graph: Graph) -> dict[str, Any]:
    numbers = {name: number for number, name in enumerate(routes.constants)}
    single = {value.name: float(value.data.reshape(())) for node in graph.nodes for value in node.values()
              if isinstance(value.data, np.ndarray) and value.data.size == 1 and value.name in numbers}

    def operand(each: str | tuple[float, ...] | None) -> Any:
        return numbers[each] if isinstance(each, str) else each

    def route(each: Route) -> list[Any]:
        steps = [[fold.step, *map(operand, fold.operands)] for fold in each.steps]
        return [operand(each.weight), each.extents, operand(each.bias), steps, each.biased,
                [_written_piece(piece) for piece in each.pieces]]

    return {"constants": [[name, constant.dtype, constant.shape, name in routes.complete, single.get(name)]
                          for name, constant in routes.constants.items()],
            "routes": [route(each) for each in routes.routes]}


def _written_piece(piece: ConstantPiece) -> list[Any]:
    return [piece.program, piece.offset, piece.form, _written_view(piece.weights),
            None if piece.bias is None else _written_view(piece.bias), piece.lanes, piece.table, piece.streams]


def _written_view(view: WeightView | Picked) -> list[Any]:
    if isinstance(view, WeightView):
        return [view.offset, view.shape, view.strides]
    data = zlib.compress(np.diff(view.numbers.reshape(-1).astype("<i4"), prepend=np.int32(0)).tobytes())
    return [view.shape, base64.b85encode(data).decode()]


def _read(document: Mapping[str, Any], sizes: Sequence[int], limits: Limits) -> Routes:
    names: list[str] = []
    constants: dict[str, ConstantRecord] = {}
    complete = set()
    for name, dtype, shape, whole, number in document["constants"]:
        _require(isinstance(name, str) and name not in constants, "names of constants that differ", name)
        _require(dtype in NUMPY_TYPES, "an element type", dtype)
        _require(number is None or type(number) in (int, float), "a number or null", number)
        constants[name] = ConstantRecord(dtype, _extents(shape, least=0), None if number is None else float(number))
        names.append(name)
        if _flag(whole):
            complete.add(name)
    routes = tuple(_read_route(route, names, constants, sizes, limits) for route in document["routes"])
    channels = sum(route.channels for route in routes)
    _require(channels <= MASKED * sum(sizes), f"at most {MASKED * sum(sizes)} channels", channels)
    return Routes(routes, constants, frozenset(complete))


def _read_route(route: Any, names: Sequence[str], constants: Mapping[str, ConstantRecord], sizes: Sequence[int],
                limits: Limits) -> Route:
    weight, extents, bias, steps, biased, pieces = route
    outer, channels, inner = _extents(extents)
    found = Route(_name(weight, names), (outer, channels, inner), _name(bias, names),
                  tuple(_read_fold(fold, names, constants, channels) for fold in steps), _flag(biased),
                  tuple(_read_piece(piece, sizes, limits) for piece in pieces))
    elements = outer * channels * inner
    _require(elements == (channels if found.weight is None else constants[found.weight].elements),
             "extents of the weight", list(extents))
    _require(found.bias is None or constants[found.bias].elements == channels, "a bias of each channel", bias)
    _require(found.weight is not None or len(steps) == 1, "one step where there is no weight", len(steps))
    for piece in found.pieces:
        _check(piece, elements, channels if found.biased else 0, sizes[piece.program], limits)
    return found


def _read_fold(fold: Any, names: Sequence[str], constants: Mapping[str, ConstantRecord], channels: int) -> Fold:
    step, operands = FoldOperation(fold[0]), []
    for operand in fold[1:]:
        read: str | tuple[float, ...] | None
        if isinstance(operand, list):
            _require(all(type(number) in (int, float) for number in operand), "numbers", operand)
            read = tuple(map(float, operand))
        else:
            read = _name(operand, names)
        size = 1 if read is None else len(read) if isinstance(read, tuple) else constants[read].elements
        _require(size in (1, channels), f"1 or {channels} numbers", size)
        operands.append(read)
    _require(len(operands) == (5 if step is FoldOperation.NORM else 1), f"the operands of {step}", len(operands))
    return Fold(step, tuple(operands))


def _read_piece(piece: Any, sizes: Sequence[int], limits: Limits) -> ConstantPiece:
    program, offset, form, weights, bias, lanes, table, streams = piece
    number = _number(program, len(sizes))
    biases = None if bias is None else _read_view(bias, sizes[number])
    _require(not isinstance(biases, Picked), "a view of the biases", "picked elements")
    assert not isinstance(biases, Picked)
    places = tuple((_number(core, limits.cores), _number(start), _number(size)) for core, start, size in streams)
    return ConstantPiece(number, _number(offset, sizes[number] + 1), ConstantForm(form),
                         _read_view(weights, sizes[number]), biases,
                         1 + _number(lanes - 1, limits.lanes.small_most), _flag(table), places)


def _read_view(view: Any, most: int) -> WeightView | Picked:
    if len(view) == 3:
        offset, shape, strides = view
        extents, steps = _extents(shape), tuple(_number(step) for step in strides)
        _require(len(extents) == len(steps), "as many strides as extents", strides)
        return WeightView(_number(offset), extents, steps)
    shape, text = view
    extents = _extents(shape)
    _require(prod(extents) <= most, f"no more than the {most} bytes of constants", shape)
    size = 4 * prod(extents)
    data = zlib.decompressobj().decompress(base64.b85decode(text), size)
    _require(len(data) == size, f"{size} bytes", len(data))
    return Picked(np.cumsum(np.frombuffer(data, "<i4"), dtype=np.int64).reshape(extents))


def _check(piece: ConstantPiece, elements: int, channels: int, size: int, limits: Limits) -> None:
    """FormatError unless a piece reads elements there are and writes bytes there are."""
    seen, bias = piece.weights, piece.bias
    ranks = {ConstantForm.DENSE: 3, ConstantForm.SPARSE: 5, ConstantForm.ROWS: 2}
    _require(len(seen.shape) == ranks[piece.form], f"{ranks[piece.form]} dimensions", seen.shape)
    _require(prod(seen.shape) <= size, f"no more than the {size} bytes of constants", seen.shape)
    if isinstance(seen, WeightView):
        _require(seen.end <= elements, f"one of {elements} elements", seen.end)
    else:
        _require(seen.numbers.min() >= 0 and seen.numbers.max() <= elements, f"one of {elements} elements", "others")
    if bias is not None:
        _require(bias.shape == seen.shape[:2] and bias.end <= channels and piece.form is not ConstantForm.ROWS,
                 f"biases of {channels} channels", bias.shape)
    if piece.form is ConstantForm.ROWS:
        end = seen.shape[0] * limits.memory_row(HALFWORD * seen.shape[1])
    elif piece.form is ConstantForm.DENSE:
        groups, count, rows = seen.shape
        form = limits.coefficients
        place = form.dense(Geometry(groups, count, rows), piece.lanes, bias is not None,
                           form.table.size if piece.table else 0)
        end = max(start + length for _, start, length in place.streams)
    else:
        end = max((start + length for _, start, length in piece.streams), default=0)
    _require(piece.offset + end <= size, f"bytes below {size}", piece.offset + end)


def _name(number: Any, names: Sequence[str]) -> str | None:
    return None if number is None else names[_number(number, len(names))]


def _extents(numbers: Any, least: int = 1) -> tuple[int, ...]:
    found = tuple(_number(number) for number in numbers)
    _require(all(number >= least for number in found) and prod(found) < MOST, "extents", numbers)
    return found


def _number(number: Any, end: int = MOST) -> int:
    _require(type(number) is int and 0 <= number < end, f"a number below {end}", number)
    return int(number)


def _flag(flag: Any) -> bool:
    _require(isinstance(flag, bool), "true or false", flag)
    return bool(flag)


def _require(good: object, expected: str, found: object) -> None:
    if not good:
        raise FormatError(f"{FILE} is malformed", expected=expected, found=found)
