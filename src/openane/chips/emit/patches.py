"""The patches in which the engines go through a result, and the height of tiles.

A core of the neural engine works on patches of a fixed number of pixels: a task states which shapes of patches it
allows (ShMin to ShMax) and which it prefers. The patch of the planar engine is given by its width and height. None of
this changes the result. Evidence: the recorded programs of Apple's compiler; where they leave a choice open the
docstring says so. The numbers in the docstrings are those of H13; each generation gives its own in its `PatchRules`.
"""

from __future__ import annotations

from openane.chips.emit.flow import is_transposed
from openane.chips.emit.operands import stored
from openane.chips.emit.policy import PatchRules, Policy
from openane.engine import (
    Access,
    ChannelProduct,
    Convolution,
    Elementwise,
    GainOffset,
    NeuralOperation,
    Operation,
    PassThrough,
    Pooling,
    Reduction,
    Space,
)
from openane.record_classes import dataclass
from openane.registers import Fields
from openane.rounding import round_up


@dataclass(frozen=True, slots=True)
class Patch:
    """Neural-engine patch shapes: log2 of the rows preferred, fewest and most; `small` is SmallSourceMode."""

    prefer: int = 0
    fewest: int = 0
    most: int = 0
    small: bool = False

    @property
    def rows(self) -> int:
        """Most rows of a patch."""
        return int(2 ** self.most)

    def fields(self) -> Fields:
        """The scheduling fields of Common.Cfg."""
        return {"Common.Cfg.ShPref": self.prefer, "Common.Cfg.ShMin": self.fewest, "Common.Cfg.ShMax": self.most,
                "Common.Cfg.SmallSourceMode": int(self.small)}


def log2_up(value: int) -> int:
    """log2, rounded up."""
    return (value - 1).bit_length()


def best_shape(width: int, rules: PatchRules) -> int:
    """Rule: the patch width is the power of two from 8 to 128 that covers the result's width with the least waste, the
    widest of several (224 is covered by 32, 256 by 128)."""
    widths = [2 ** exponent for exponent in range(rules.pixels, rules.narrowest - 1, -1)]
    best = min(widths, key=lambda w: round_up(width, w))
    return rules.pixels - log2_up(best)


def turned_lanes(operation: NeuralOperation, rules: PatchRules) -> int:
    """Rule: a copy out of memory that turns rows into channels does so in lanes: the largest power of two that leaves
    each `turned_channels` channels, up to the most."""
    turned = (isinstance(operation, PassThrough) and operation.source.space is Space.MEMORY
              and is_transposed(operation.result))
    blocks = operation.result.shape[1] // rules.turned_channels
    return min(rules.turned_lanes, 2 ** (blocks.bit_length() - 1)) if turned and blocks else 1


def _near(source: Access) -> bool:
    """Whether a source lies in L2, or leaves a copy there."""
    return source.space is Space.L2 or source.copy is not None


def _small(operation: NeuralOperation, rules: PatchRules) -> bool:
    """Whether a result is weighted and small, and no core reads much for it."""
    weighted = isinstance(operation, Convolution) and not operation.unicast
    return (weighted and max(operation.result.shape[3:]) <= rules.small_side
            and _largest_stream(operation) < rules.small_stream)


def patch(operation: NeuralOperation, rules: PatchRules, pipelined: bool = False) -> Patch:
    """The patches of a task: H13's, or what copies, products and small results of later generations have instead."""
    found = _patch(operation, rules, pipelined)
    if rules.copies_bounded:
        return found
    if isinstance(operation, PassThrough):
        return _copy_patch(operation, rules, found)
    if isinstance(operation, ChannelProduct):
        height, width = operation.result.shape[3:]
        return Patch(1, 1, max(1, best_shape(width, rules) if height > 1 else 0))
    return _small_patch(operation, rules, found)


def _copy_patch(operation: PassThrough, rules: PatchRules, found: Patch) -> Patch:
    """Rule: copies and tables walk in any shape up to the best one of their width. One that turns rows into channels in
    lanes prefers as many rows as there are lanes to a quarter of the cores' 16, at most 8; with one lane, 8."""
    channels, height, width = operation.result.shape[1], *operation.result.shape[3:]
    best = best_shape(width, rules)
    lanes = turned_lanes(operation, rules)
    if lanes > 1 or (rules.turned_near and operation.source.space is Space.L2 and is_transposed(operation.result)):
        prefer = min(rules.streamed, rules.small_rows - log2_up(lanes))
        return Patch(prefer, min(prefer, best), max(prefer, best if height > 1 else 0))
    if operation.source.space is Space.MEMORY and is_transposed(operation.result):
        flat = rules.turned_flat if channels == 1 else rules.streamed
        return Patch(flat, 0, flat) if width >= 2 ** rules.pixels else found
    if height > 1 and found.prefer == found.fewest == 0:
        return Patch(0, 0, best)
    return found


def _small_patch(operation: NeuralOperation, rules: PatchRules, found: Patch) -> Patch:
    """Rule: small results of long streams take H13's patches, of short ones one row where they have one, 8 where the
    window is one element (inferred from few: streams of 16 and 72 KiB are either side)."""
    if rules.few_rows and second_of_product(operation):
        assert isinstance(operation, Convolution)
        rows = rules.few_rows[operation.source.shape[4] > rules.small_side]
        return Patch(rows, rows, rows, small=True)
    if not found.small or _largest_stream(operation) > rules.small_unbiased:
        return found
    if operation.result.shape[3] == 1:
        return Patch(small=True)
    if isinstance(operation, Convolution) and operation.kernel[1:] == (1, 1):
        return Patch(rules.streamed, rules.streamed, rules.streamed, small=True)
    return found


def second_of_product(operation: Operation | NeuralOperation) -> bool:
    """Whether a convolution is the second task of a product: it takes rows from L2 that a copy made channels, and turns
    its result back into rows."""
    return (isinstance(operation, Convolution) and operation.source.space is Space.L2
            and operation.result.space is Space.MEMORY and is_transposed(operation.result))


def _largest_stream(operation: NeuralOperation) -> int:
    """Bytes of the longest stream of a core."""
    sections = operation.coefficients.sections if operation.coefficients is not None else ()
    return max([size for section in sections for _, _, size in section.streams.parts], default=0)


def _patch(operation: NeuralOperation, rules: PatchRules, pipelined: bool) -> Patch:
    """Rule: a small weighted result (at most 8x8, streams below 128 KiB a core) is taken in 16-row patches in the mode
    for small sources; a result of one row in patches of one row; a source in L2 is taken in its best shape; a streamed
    one in any shape up to 8 rows, with 8 columns or fewer in 16 rows once it is that high. A transposed copy of at most
    8 rows or into coefficient packing prefers 8. `pipelined`: the task follows a planar one patch by patch."""
    width, height = operation.result.shape[4], operation.result.shape[3]
    best = best_shape(width, rules)
    resident = _near(operation.source)
    if _small(operation, rules):
        return Patch(rules.small_rows, rules.small_rows, rules.small_rows, small=True)
    if pipelined:
        return Patch(best, best, best)
    if is_transposed(operation.result) and operation.result.interleave > 1:
        return Patch(rules.streamed, 0, rules.streamed)
    if _few_rows(operation, rules):
        return Patch(rules.streamed, min(rules.streamed, log2_up(height)), rules.streamed)
    if height == 1:
        return Patch()
    if resident or (best > rules.streamed and height >= 2 ** best):
        return Patch(best, best, best) if height >= rules.small_side else Patch(*(3 * (min(best, log2_up(height)),)))
    most = min(best, rules.streamed, log2_up(height))
    if isinstance(operation, Convolution) and width % rules.small_side:
        return Patch(most, most, most)
    return Patch(0, 0, most)


def _few_rows(operation: NeuralOperation, rules: PatchRules) -> bool:
    """A streamed copy that transposes at most 8 rows of at least 128."""
    return (isinstance(operation, PassThrough) and operation.source.space is Space.MEMORY
            and is_transposed(operation.result) and operation.result.shape[1] <= rules.small_side
            and operation.result.shape[3] <= rules.small_side and operation.result.shape[4] >= 2 ** rules.pixels)


def staged(operation: Operation, policy: Policy) -> bool:
    """Rule: a result in memory whose stored rows are wider than a neural-engine patch and no multiple of 16 elements
    goes out from whole rows in L2 (recorded: rows of 375, neural and planar); not where one row of all channels would
    take more than half of L2 (inferred)."""
    result, rules = operation.result, policy.patches
    _, channels, depth, _, width = stored(result, "the result", may_swap=True, may_broadcast=True).extents
    return (result.space is Space.MEMORY and result.copy is None and result.interleave == 1
            and width > 2 ** rules.pixels and width % rules.staged_multiple > 0
            and channels * depth * width * result.dtype.size <= policy.limits.l2_size // 2)


def planar_patch(operation: Elementwise | GainOffset | Pooling | Reduction, policy: Policy,
                 followed: Patch | None = None) -> Fields:
    """Rule: a planar patch is 16 to 512 wide and up to 32 high, at most 512 pixels, 256 with two operands; one that a
    neural-engine task follows patch by patch (`followed`) takes that one's patches."""
    _, _, _, height, width = operation.first.shape
    rules = policy.patches
    (narrowest, widest), limit = rules.planar_widths, rules.planar_pixels[operation.second is not None]
    across = min(max(log2_up(width), narrowest), widest, limit)
    if staged(operation, policy):
        across = log2_up(rules.staged_width)
    down = min(log2_up(height), rules.planar_height, limit - across)
    if followed is not None:
        across = max(min(across, rules.pixels - followed.most), narrowest)
        down = followed.most
    return {"Common.PETile.WidthLog2": across, "Common.PETile.HeightLog2": down}


def tile_rows(operation: Operation, rules: PatchRules) -> int:
    """Rule: a tile is the whole height of the result of a neural-engine task, of the source of a planar one; at most a
    patch where a reduction keeps its source."""
    if isinstance(operation, NeuralOperation):
        return operation.result.shape[3]
    rows = operation.first.shape[3]
    keeps = isinstance(operation, Reduction) and operation.first.copy is not None
    return min(rows, 2 ** rules.planar_height) if keeps else rows
