"""Rules about coefficient streams: present for every core, inside their memory, big enough, decodable."""

from __future__ import annotations

from collections.abc import Iterator

from openane.chips import Breach
from openane.chips.coefficients import HALFWORD, CoefficientFormat
from openane.engine import (
    Activation,
    Coefficients,
    CoefficientSection,
    Convolution,
    Geometry,
    NeuralOperation,
    Operation,
    Packing,
    Space,
    geometry_of,
)
from openane.errors import ProgramError
from openane.program.verify.context import TaskView, VerifyContext
from openane.program.verify.sparse import sparse_defect
from openane.program.verify.violation import Found


def stream_extents(context: VerifyContext) -> Found:
    """A coefficient stream must lie inside the constants or the buffer it is read from, in multiples of what streams
    are aligned to."""
    unit = context.chip.limits.coefficients.alignment
    for view, coefficients in _all(context):
        for section in coefficients.sections:
            memory = context.memory.get(section.slot)
            for stream in section.streams:
                end = stream.offset + stream.size
                name = f"{context.chip.register('coefficients', Space.MEMORY)}[{stream.core}]"
                if stream.offset % unit or stream.size % unit:
                    yield view.index, Breach(name, hex(stream.offset), f"a multiple of {unit}")
                if memory is not None and (stream.offset < 0 or stream.size < 1 or end > memory.size):
                    yield view.index, Breach(name, f"bytes {stream.offset:#x} to {end:#x}", f"{memory.size:#x} bytes")


def stream_sizes(context: VerifyContext) -> Found:
    """Every core that computes result channels must have a stream that holds its table, biases and weights."""
    form = context.chip.limits.coefficients
    for view, coefficients in _all(context):
        if view.operation is None:
            continue
        geometry = geometry_of(view.operation)
        if coefficients.weights is not None and geometry is not None:
            total = coefficients.weights.streams.total
            if least_bytes(geometry, coefficients.packing) > total:
                yield view.index, Breach("coefficients", str(geometry), f"{total} bytes of streams")
                continue
        for section in coefficients.sections:
            sizes = {stream.core: stream.size for stream in section.streams}
            for core, needed in needed_bytes(view.operation, coefficients, section, form).items():
                if sizes.get(core, 0) < needed:
                    yield view.index, Breach(f"coefficients of core {core}", f"{needed} bytes needed",
                                             f"{sizes.get(core, 0)} bytes in its stream")


def activation_tables(context: VerifyContext) -> Found:
    """An operation whose activation is a table must have one in its coefficients, and only such an operation."""
    for view in context.tasks:
        if isinstance(view.operation, NeuralOperation):
            wanted = view.operation.post.activation is Activation.TABLE
            present = view.coefficients is not None and view.coefficients.table is not None
            if wanted != present:
                yield view.index, Breach("activation", view.operation.post.activation.value,
                                         "a table" if present else "no table without coefficients that hold it")


def known_coefficients(context: VerifyContext) -> Found:
    """Coefficients must have a described form: fp16 as they are, or without zeros in the constants; a table must be
    a constant of a described kind."""
    constant, name = context.constants, context.chip.register("coefficients", Space.MEMORY)
    for view, coefficients in _all(context):
        weights, table = coefficients.weights, coefficients.table
        if coefficients.packing is Packing.PALETTE:
            yield view.index, Breach(name, "palettised", "dense or zero-skipping")
        if weights is not None and geometry_of(view.operation) is None:
            yield view.index, Breach(name, "weights", "no weights in an operation that multiplies nothing")
        if table is not None and table.slot not in constant:
            yield view.index, Breach(name, f"a table in slot {table.slot}", "a table in the constants")
        elif table is not None:
            yield from ((view.index, breach) for breach in _bad_tables(context, table))
        if coefficients.packing is Packing.SPARSE and weights is not None:
            yield from ((view.index, breach) for breach in _bad_bodies(context, view.operation, coefficients, name))


def _bad_bodies(context: VerifyContext, operation: Operation | None, coefficients: Coefficients,
                name: str) -> Iterator[Breach]:
    """What is wrong with zero-skipping weights."""
    if coefficients.weights is not None and coefficients.weights.slot not in context.constants:
        yield Breach(name, "zero-skipping at run time", "zero-skipping in the constants")
        return
    geometry = geometry_of(operation)
    if geometry is not None and isinstance(operation, Convolution) and coefficients.weights is not None:
        defect = sparse_defect(geometry, operation.kernel[1:], coefficients,
                               context.program.constants_of(coefficients.weights.slot),
                               context.chip.limits.coefficients, context.follow)
        if defect:
            yield Breach(name, defect, "zero-skipping bodies inside their streams")


def _bad_tables(context: VerifyContext, table: CoefficientSection) -> Iterator[Breach]:
    form, constants = context.chip.limits.coefficients.table, context.program.constants_of(table.slot)
    for offset in dict.fromkeys(stream.offset for stream in table.streams):
        try:
            form.unpack(bytes(constants[offset:offset + form.size]))
        except ProgramError as error:
            yield Breach(f"table at {offset:#x}", str(error), "a described table")


def least_bytes(geometry: Geometry, packing: Packing) -> int:
    """Bytes all weights take at least: a zero-skipping channel may have no more than a byte."""
    return geometry.weights * HALFWORD if packing is Packing.DENSE else geometry.groups * geometry.channels


def needed_bytes(operation: Operation, coefficients: Coefficients, section: CoefficientSection,
                 form: CoefficientFormat) -> dict[int, int]:
    """Bytes each core reads of its stream of a section at least. Zero-skipping bodies state their own lengths and are
    left out."""
    header = form.table.size if coefficients.table == section else 0
    needed = dict.fromkeys([stream.core for stream in section.streams], header)
    geometry = geometry_of(operation)
    if geometry is None or coefficients.weights != section or coefficients.packing is not Packing.DENSE:
        return needed
    return needed | form.place(geometry, coefficients).needed()


def _all(context: VerifyContext) -> list[tuple[TaskView, Coefficients]]:
    return [(view, view.coefficients) for view in context.tasks if view.coefficients is not None]
