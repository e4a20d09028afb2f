"""Every byte a task touches, by brute force: one index per element, nothing inferred from strides or spans.

Slow and bounded, for checking the verifier and for finding out what a broken program would do. An element
(n, c, d, h, w) lies at offset + n*N + (c // I)*C + d*D + h*H + w*W + (c % I)*size; windows touch only real elements.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from openane.chips.coefficients import HALFWORD, CoefficientFormat
from openane.engine import (
    Access,
    ChannelMaximum,
    ChannelProduct,
    Coefficients,
    CoefficientSection,
    Convolution,
    Geometry,
    NeuralOperation,
    Operation,
    Packing,
    Pooling,
    Space,
    geometry_of,
    sources,
)
from openane.engine.access import CHANNELS
from openane.errors import SimulationError
from openane.record_classes import dataclass

LARGEST = 1 << 20
"""Elements of one operand that are followed one by one."""


@dataclass(frozen=True, slots=True)
class OperandBytes:
    """Bytes of one operand: `what` it is, the slot (None: L2), sorted distinct byte positions, possibly outside."""

    what: str
    slot: int | None
    positions: np.ndarray


def reads(operation: Operation, form: CoefficientFormat) -> list[OperandBytes]:
    """What an operation reads: tile operands and coefficients. SimulationError when there are too many elements."""
    touched = [_touch(name, access, _selection(operation, access)) for name, access in
               zip(("first", "second"), sources(operation), strict=False) if access.space is not Space.CHAIN]
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None:
        touched += coefficient_reads(operation, operation.coefficients, form)
    return touched


def writes(operation: Operation) -> list[OperandBytes]:
    """What an operation writes: copies of its operands, then its result and the result's copy."""
    accesses = [("copy", a.copy) for a in (*sources(operation), operation.result) if a.copy is not None]
    if operation.result.space is not Space.CHAIN:
        accesses.append(("result", operation.result))
    return [_touch(name, access, None) for name, access in accesses if access is not None]


def coefficient_reads(operation: NeuralOperation, coefficients: Coefficients,
                      form: CoefficientFormat) -> Iterator[OperandBytes]:
    """The bytes of each core's streams that are used; positions beyond a stream's size are not cut off."""
    for section in coefficients.sections:
        cores: dict[int, list[np.ndarray]] = {stream.core: [] for stream in section.streams}
        if section == coefficients.table:
            for parts in cores.values():
                parts.append(np.arange(form.table.size))
        if section in (coefficients.weights, coefficients.bias):
            _follow(operation, coefficients, section, form, cores)
        streams = {stream.core: (stream.offset, stream.size) for stream in section.streams}
        for core, parts in cores.items():
            offset, size = streams.get(core, (0, 0))
            where = np.unique(np.concatenate(parts)) if parts else np.zeros(0, np.int64)
            if where.size and where[-1] >= size:
                raise SimulationError(f"core {core} reads coefficients beyond its stream of {size} bytes")
            yield OperandBytes("coefficients", section.slot, where + offset)


def _follow(operation: NeuralOperation, coefficients: Coefficients, section: CoefficientSection,
            form: CoefficientFormat, cores: dict[int, list[np.ndarray]]) -> None:
    if coefficients.packing is not Packing.DENSE:
        if section.streams.total > LARGEST:
            raise SimulationError(f"more coefficients than the {LARGEST} bytes that are followed one by one")
        for stream in section.streams:
            cores[stream.core].append(np.arange(stream.size))
        return
    geometry = geometry_of(operation)
    if geometry is None:
        raise SimulationError(f"{type(operation).__name__} has no use for weights")
    _weights(geometry, coefficients, form, cores)


def positions(access: Access, selection: Sequence[np.ndarray] | None = None) -> np.ndarray:
    """Byte positions of every element (`selection`: only these indices per dimension), one row per element."""
    n, c, d, h, w = (np.arange(extent) for extent in access.shape) if selection is None else selection
    if n.size * c.size * d.size * h.size * w.size > LARGEST:
        raise SimulationError(f"{access} visits more than the {LARGEST} elements that are followed one by one")
    sn, sc, sd, sh, sw = access.strides
    size = access.dtype.size
    in_blocks = access.packed == CHANNELS
    channel = c // access.interleave * sc + c % access.interleave * size if in_blocks else c * sc
    column = w * sw if in_blocks else w // access.interleave * sw + w % access.interleave * size
    where = (n[:, None, None, None, None] * sn + channel[:, None, None, None] + d[:, None, None] * sd
             + h[:, None] * sh + column + access.offset)
    return where.reshape(-1, 1) + np.arange(size)


def _touch(what: str, access: Access, selection: Sequence[np.ndarray] | None) -> OperandBytes:
    slot = None if access.space is Space.L2 else access.slot
    return OperandBytes(what, slot, np.unique(positions(access, selection)))


def _selection(operation: Operation, access: Access) -> list[np.ndarray]:
    """The indices per dimension that an operation really needs of its source."""
    chosen = [np.arange(extent) for extent in access.shape]
    result = operation.result.shape
    if isinstance(operation, Convolution):
        windows = [(2 + i, *setting) for i, setting in
                   enumerate(zip(operation.kernel, operation.stride, operation.padding, strict=True))]
    elif isinstance(operation, Pooling):
        windows = [(3 + i, *setting) for i, setting in
                   enumerate(zip(operation.kernel, operation.stride, operation.padding, strict=True))]
    else:
        windows = []
    for axis, kernel, stride, padding in windows:
        taps = np.arange(result[axis])[:, None] * stride - padding + np.arange(kernel)
        chosen[axis] = np.unique(taps[(taps >= 0) & (taps < access.shape[axis])])
    each = operation.unicast if isinstance(operation, Convolution) else (
        operation.channels if isinstance(operation, ChannelMaximum) else 2 * isinstance(operation, ChannelProduct))
    if each:
        chosen[1] = chosen[1][:each * result[1]]
    return chosen


def _weights(geometry: Geometry, coefficients: Coefficients, form: CoefficientFormat,
             cores: dict[int, list[np.ndarray]]) -> None:
    if geometry.weights > LARGEST:
        raise SimulationError(f"more weights than the {LARGEST} that are followed one by one")
    pair = np.arange(HALFWORD)
    for channel in form.place(geometry, coefficients).channels():
        where = [channel.weights + channel.step * np.arange(geometry.rows)] if coefficients.weights else []
        if channel.bias is not None:
            where.append(np.array([channel.bias]))
        halfwords = np.concatenate(where)
        cores.setdefault(channel.core, []).append((halfwords[:, None] * HALFWORD + pair).reshape(-1))
