"""The estimate of a task's time that Apple's compiler states in the header. It has no effect on anything.

Evidence: it is in microseconds, rounded down. Of 118 recorded tasks all whose rows hold more than one element agree
with the bytes they move over 34.13 GB/s, the memory bandwidth of an A14. Tasks of single elements take longer per
channel: 4.45 ns for each streamed operand agrees with additions of 64, 512 and 4096 channels and a table of 512.
"""

from __future__ import annotations

from openane.chips.emit.policy import EstimateRules, Policy
from openane.engine import Access, Elementwise, GainOffset, NeuralOperation, Operation, Space, sources
from openane.rounding import round_up


def microseconds(operation: Operation, policy: Policy) -> int:
    """Whole microseconds a task takes: the bytes it moves or the planes it visits, whichever takes longer."""
    rules = policy.estimate
    moved = sum(_bytes(access, policy.limits.burst) for access in (*sources(operation), operation.result))
    coefficients = operation.coefficients if isinstance(operation, NeuralOperation) else None
    if coefficients is not None:
        moved += coefficients.size if coefficients.weights else 0
    return min(rules.largest, int(max(moved / rules.bytes_per_microsecond, _visits(operation, rules) / 1000)))


def _bytes(access: Access, burst: int) -> int:
    """Bytes of a memory operand in whole bursts; a broadcast dimension moves once."""
    if access.space is not Space.MEMORY:
        return 0
    n, blocks, d, h, w = access.blocks
    _, sc, sd, sh, sw = access.strides
    element = access.dtype.size * access.interleave
    if (w > 1 and sw not in (0, element)) or (w == 1 and blocks > 1 and sc == access.dtype.size):
        blocks, w, sc, sw = w, blocks, sw, element
    extents = [1 if extent > 1 and not stride else extent for extent, stride in ((blocks, sc), (d, sd), (h, sh))]
    row = round_up((1 if w > 1 and not sw else w) * element, burst)
    return n * extents[0] * extents[1] * extents[2] * row


def _visits(operation: Operation, rules: EstimateRules) -> float:
    """Nanoseconds for visiting every channel of every group."""
    if isinstance(operation, NeuralOperation) and operation.coefficients is not None and operation.coefficients.weights:
        return 0.0
    first = sources(operation)[0]
    streamed = _streamed(operation, rules)
    if isinstance(operation, NeuralOperation):
        counted = streamed > 0 and first.shape[3] * first.shape[4] == 1
    else:
        counted = streamed > 0 or rules.resident_elementwise or not isinstance(operation, Elementwise | GainOffset)
    planes = first.shape[0] * first.shape[1]
    return planes * (rules.plane_nanoseconds * streamed or rules.resident_plane_nanoseconds) if counted else 0.0


def _streamed(operation: Operation, rules: EstimateRules) -> int:
    """Operands from memory whose planes are visited."""
    vectors = isinstance(operation, GainOffset) and not rules.streamed_vectors
    return sum(access.space is Space.MEMORY for access in sources(operation)[:1 if vectors else None])
