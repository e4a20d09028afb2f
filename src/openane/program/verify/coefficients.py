"""Rules about coefficient streams: present for every core, inside their memory, big enough, decodable."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from openane.chips import Breach
from openane.engine import (
    Activation,
    Coefficients,
    Convolution,
    MatrixProduct,
    NeuralOperation,
    Operation,
    Packing,
    Space,
)
from openane.engine.coefficients import CORES, PAD, TABLE_BYTES, blocks, left_over_lanes
from openane.engine.table import Table
from openane.errors import ProgramError
from openane.program.model import CONSTANT_SLOT
from openane.program.verify.context import Context, TaskView
from openane.program.verify.sparse import sparse_defect
from openane.program.verify.violation import Found

HALFWORD = 2


@dataclass(frozen=True, slots=True)
class Geometry:
    """Groups with weights of their own, result channels of each, weights per channel. `single`: every channel has
    inputs of its own, and all count as one group with one lane."""

    groups: int
    channels: int
    rows: int
    single: bool = False

    def __str__(self) -> str:
        return f"{self.groups} x {self.channels} x {self.rows} weights"

    def least(self, dense: bool) -> int:
        """Bytes all weights take at least."""
        return self.groups * self.channels * (self.rows * HALFWORD if dense else 1)


def stream_extents(context: Context) -> Found:
    """A coefficient stream must lie inside the constants or the buffer it is read from, in multiples of 64 bytes."""
    for view, coefficients in _all(context):
        memory = context.memory.get(coefficients.slot)
        for stream in coefficients.streams:
            end = stream.offset + stream.size
            name = f"{context.chip.register('coefficients', Space.MEMORY)}[{stream.core}]"
            if stream.offset % PAD or stream.size % PAD:
                yield view.index, Breach(name, hex(stream.offset), f"a multiple of {PAD}")
            if memory is not None and (stream.offset < 0 or stream.size < 1 or end > memory.size):
                yield view.index, Breach(name, f"bytes {stream.offset:#x} to {end:#x}", f"{memory.size:#x} bytes")


def stream_sizes(context: Context) -> Found:
    """Every core that computes result channels must have a stream that holds its table, biases and weights."""
    for view, coefficients in _all(context):
        if view.operation is None:
            continue
        sizes = {stream.core: stream.size for stream in coefficients.streams}
        total = sum(sizes.values())
        geometry = geometry_of(view.operation)
        dense = coefficients.packing is Packing.DENSE
        if coefficients.weights and geometry and geometry.least(dense) > total:
            yield view.index, Breach("coefficients", str(geometry), f"{total} bytes of streams")
            continue
        for core, needed in needed_bytes(view.operation, coefficients).items():
            if sizes.get(core, 0) < needed:
                yield view.index, Breach(f"coefficients of core {core}", f"{needed} bytes needed",
                                         f"{sizes.get(core, 0)} bytes in its stream")


def activation_tables(context: Context) -> Found:
    """An operation whose activation is a table must have one in its coefficients, and only such an operation."""
    for view in context.tasks:
        if isinstance(view.operation, NeuralOperation):
            wanted = view.operation.post.activation is Activation.TABLE
            present = view.coefficients is not None and view.coefficients.table
            if wanted != present:
                yield view.index, Breach("activation", view.operation.post.activation.value,
                                         "a table" if present else "no table without coefficients that hold it")


def known_coefficients(context: Context) -> Found:
    """Coefficients must have a described form: fp16 as they are, or without zeros in the constants; a table must be
    a constant of a described kind."""
    for view, coefficients in _all(context):
        name = context.chip.register("coefficients", Space.MEMORY)
        constant = coefficients.slot == CONSTANT_SLOT
        if coefficients.packing is Packing.PALETTE:
            yield view.index, Breach(name, "palettised", "dense or zero-skipping")
        if coefficients.table and not constant:
            yield view.index, Breach(name, f"a table in slot {coefficients.slot}", "a table in the constants")
        if coefficients.packing is Packing.SPARSE and not constant:
            yield view.index, Breach(name, "zero-skipping at run time", "zero-skipping in the constants")
        if coefficients.weights and geometry_of(view.operation) is None:
            yield view.index, Breach(name, "weights", "no weights in an operation that multiplies nothing")
        if not constant:
            continue
        constants = context.program.constants
        for offset in dict.fromkeys(s.offset for s in coefficients.streams if coefficients.table):
            try:
                Table.from_bytes(bytes(constants[offset:offset + TABLE_BYTES]))
            except ProgramError as error:
                yield view.index, Breach(f"table at {offset:#x}", str(error), "a described table")
        geometry = geometry_of(view.operation)
        if coefficients.packing is Packing.SPARSE and geometry and isinstance(view.operation, Convolution):
            shape = (geometry.groups, geometry.channels, geometry.rows)
            _, height, width = view.operation.kernel
            defect = sparse_defect(shape, (height, width), coefficients, constants)
            if defect:
                yield view.index, Breach(name, defect, "zero-skipping bodies inside their streams")


def geometry_of(operation: Operation | None) -> Geometry | None:
    """How an operation's weights are arranged; None for operations without weights."""
    if isinstance(operation, MatrixProduct):
        return Geometry(1, operation.result.shape[1], operation.source.shape[1])
    if not isinstance(operation, Convolution):
        return None
    groups = 1 if operation.shared else operation.result.shape[0]
    inputs = operation.unicast or operation.source.shape[1]
    return Geometry(groups, operation.result.shape[1], inputs * prod(operation.kernel), operation.unicast > 0)


def needed_bytes(operation: Operation, coefficients: Coefficients) -> dict[int, int]:
    """Bytes each core reads of its stream at least. Zero-skipping bodies state their own lengths and are left out."""
    header = TABLE_BYTES if coefficients.table else 0
    needed = {stream.core: header for stream in coefficients.streams}
    geometry = geometry_of(operation)
    if geometry is None or not coefficients.weights or coefficients.packing is not Packing.DENSE:
        return needed
    if geometry.single:
        plane, groups = _plane(geometry.groups * geometry.channels, geometry.rows, 1, coefficients.bias), 1
    else:
        plane, groups = _plane(geometry.channels, geometry.rows, coefficients.lanes, coefficients.bias), geometry.groups
    for core, halfwords in plane.items():
        size = halfwords * HALFWORD
        needed[core] = header + (groups - 1) * (-(-size // PAD) * PAD) + size
    return needed


def _plane(channels: int, rows: int, lanes: int, bias: bool) -> dict[int, int]:
    """Halfwords per core of one group: whole rounds over all cores first, then what is left over."""
    rounds, left = divmod(channels, CORES * lanes)
    each = lanes * (rows + bias)
    plane = dict.fromkeys(range(CORES), rounds * each) if rounds else {}
    for core, width, _ in blocks(left, min(lanes, left_over_lanes(left)) if rounds else lanes):
        plane[core] = plane.get(core, 0) + width * (rows + bias)
    return plane


def _all(context: Context) -> list[tuple[TaskView, Coefficients]]:
    return [(view, view.coefficients) for view in context.tasks if view.coefficients is not None]
