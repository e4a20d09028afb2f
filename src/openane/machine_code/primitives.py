"""What loops call that is no Python, as instructions. Part of `building`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np import arrayobj

from openane.machine_code.described import Primitive

_intrinsic: Any = intrinsic
_arrays: Any = arrayobj
_utils: Any = cgutils
BYTES = ir.IntType(8).as_pointer()
EIGHT = 8


@_intrinsic
def _widened(context, word):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.bitcast(builder.trunc(arguments[0], ir.IntType(16)), ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.int32), generate


@_intrinsic
def _narrowed(context, value):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.fptrunc(arguments[0], ir.HalfType())
        return builder.zext(builder.bitcast(half, ir.IntType(16)), ir.IntType(32))

    return types.int32(types.float32), generate


def _taken(context: Any, builder: Any, kind: Any, extents: list[Any]) -> Any:
    """An array without an owner in memory of the C library."""
    array = _arrays.make_array(kind)(context, builder)
    size = context.get_abi_sizeof(context.get_data_type(kind.dtype))
    strides = [ir.Constant(ir.IntType(64), size)]
    for extent in reversed(extents[1:]):
        strides.insert(0, builder.mul(strides[0], extent))
    malloc = _utils.get_or_insert_function(builder.module, ir.FunctionType(BYTES, [ir.IntType(64)]), "malloc")
    memory = builder.call(malloc, [builder.mul(extents[0], strides[0])])
    _arrays.populate_array(array, builder.bitcast(memory, array.data.type), extents, strides, size, None)
    return array._getvalue()


@_intrinsic
def _room(context, count, zero):  # type: ignore[no-untyped-def]
    kind = types.Array(zero, 1, "C")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _taken(context, builder, kind, [arguments[0]])

    return kind(types.int64, zero), generate


@_intrinsic
def _rows(context, rows, columns, zero):  # type: ignore[no-untyped-def]
    kind = types.Array(zero, 2, "C")

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return _taken(context, builder, kind, list(arguments[:2]))

    return kind(types.int64, types.int64, zero), generate


@_intrinsic
def _given_back(context, array):  # type: ignore[no-untyped-def]
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = _arrays.make_array(signature.args[0])(context, builder, arguments[0]).data
        free = _utils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), [BYTES]), "free")
        builder.call(free, [builder.bitcast(data, BYTES)])
        return context.get_dummy_value()

    return types.void(array), generate


def _turning(signature: Any, count: int) -> Any:
    """What makes the words of `values` at origin + lane * step + row those of `section` at start + places[first + row]
    + 2 * lane, for so many lanes and eight rows."""
    words, numbers = ir.VectorType(ir.IntType(16), EIGHT), ir.VectorType(ir.IntType(32), EIGHT)
    halves = [ir.Constant(numbers, [side + pair // 2 + EIGHT * (pair % 2) for pair in range(EIGHT)])
              for side in (0, EIGHT // 2)]
    kept = ir.Constant(ir.VectorType(ir.IntType(32), count), list(range(count)))

    def generate(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        to, start, places, first, values, origin, step = arguments
        section, rows, source = (_arrays.make_array(signature.args[number])(context, builder, array).data
                                 for number, array in ((0, to), (2, places), (4, values)))
        lanes = []
        for _ in range(count):
            place = builder.bitcast(builder.gep(source, [origin]), words.as_pointer())
            lanes.append(builder.load(place, align=2))
            origin = builder.add(origin, step)
        lanes += [ir.Constant(words, ir.Undefined)] * (EIGHT - count)
        for _ in range(3):  # a lane and the one four further alternate: three times turns eight
            lanes = [builder.shuffle_vector(lanes[number], lanes[number + EIGHT // 2], half)
                     for number in range(EIGHT // 2) for half in halves]
        for row, lane in enumerate(lanes):
            found = builder.shuffle_vector(lane, lane, kept)
            at = builder.load(builder.gep(rows, [builder.add(first, ir.Constant(first.type, row))]))
            place = builder.gep(section, [builder.add(start, at)])
            builder.store(found, builder.bitcast(place, found.type.as_pointer()), align=1)
        return context.get_dummy_value()

    return generate


@_intrinsic
def _turned(context, section, start, places, first, values, origin, step):  # type: ignore[no-untyped-def]
    signature = types.void(section, start, places, first, values, origin, step)
    return signature, _turning(signature, EIGHT)


@_intrinsic
def _four_turned(context, section, start, places, first, values, origin, step):  # type: ignore[no-untyped-def]
    signature = types.void(section, start, places, first, values, origin, step)
    return signature, _turning(signature, EIGHT // 2)


PRIMITIVES: Mapping[Primitive, Any] = {
    Primitive.WIDENED: _widened, Primitive.NARROWED: _narrowed, Primitive.ROOM: _room, Primitive.ROWS: _rows,
    Primitive.GIVEN_BACK: _given_back, Primitive.TURNED: _turned,
    Primitive.FOUR_TURNED: _four_turned}
