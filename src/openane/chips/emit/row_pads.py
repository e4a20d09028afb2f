"""By how many bytes the rows of a ring in L2 are padded, so that neighbouring ones lie in different banks."""

from __future__ import annotations

from openane.chips.emit.patches import Patch, turned_lanes
from openane.chips.emit.policy import Policy
from openane.engine import Access, Convolution, Operation, PassThrough


def row_pad(access: Access, operation: Operation, channel: int, shape: Patch | None, lines: int, policy: Policy) -> int:
    """Rule: bytes a ring's row is padded by; `channel` are the bytes of a channel. Planar engine (no patch `shape`):
    none where there is depth or the operand is one row of more than one element, otherwise what spreads the rows
    (`lines` channels) over the banks."""
    n, c, d, h, w = access.shape
    banks = policy.limits.banks
    if shape is None:
        return 0 if d > 1 or (n == 1 and h == 1 and w > 1) else banks.row_pad(lines * channel)
    return banks.line * _neural_lines(c * channel // banks.line, h, operation, shape, policy)


def _neural_lines(lines: int, rows: int, operation: Operation, shape: Patch, policy: Policy) -> int:
    """Rule: lines a neural-engine ring's row of so many is padded by. From patches of 8 rows on 2 for rows of 32, from
    64 on 3, with a stride 2; copies and tables of later generations have pads of their own."""
    rules = policy.rings
    if not _is_padded(rows, operation, shape, policy):
        return 0
    if rules.copy_pads and isinstance(operation, PassThrough) and lines >= rules.pads[0][0]:
        return rules.copy_pads.get(shape.most, 0)
    pad = next(pad for least, pad in rules.pads if lines >= least)
    strided = isinstance(operation, Convolution) and operation.stride[2] > 1
    return min(pad, rules.strided_pad) if strided else pad


def _is_padded(rows: int, operation: Operation, shape: Patch, policy: Policy) -> bool:
    """Whether rows are padded: where patches are high and there are several rows, or the result is small. Copies that
    turn rows into channels in lanes are, however many rows there are, where patches are high or the result is one
    element wide."""
    high = shape.most >= policy.rings.padded_patch
    if isinstance(operation, PassThrough) and turned_lanes(operation, policy.patches) > 1:
        return high or operation.result.shape[4] == 1
    return high and (rows > 1 or shape.small)
