"""How many output channels a core computes at once, and how products and their coefficients are cut for the cores.

None of it decides a result. Evidence: the programs and records of Apple's compiler for the generation; each rule names
the cases that show it.
"""

from __future__ import annotations

from collections.abc import Iterator

from openane.record_classes import dataclass


def left_over_lanes(remaining: int, cores: int) -> int:
    """Lanes of the blocks that take `remaining` channels: the largest power of two that fills all cores."""
    return int(2 ** max(0, (remaining // cores).bit_length() - 1))


@dataclass(frozen=True, slots=True)
class LaneRules:
    """The numbers of the rules below. A lane computes one output channel; `cores` work side by side."""

    cores: int
    most: int                     # lanes a core uses for large images and products
    small_most: int               # lanes it uses where the input has at most `small_side` pixels per side
    small_side: int
    kept: int                     # bytes of coefficients a core keeps while it goes over more pixels than `streamed`
    streamed: int                 # pixels up to which a core meets each coefficient once, so that streams may be longer
    product_weights: int          # rows times lanes of a product of more than `streamed` rows
    runtime: tuple[int, ...]      # lanes of coefficients computed at run time: what the copy that packs them can state
    split_width: int              # rows of a product are laid out as rows of so many pixels
    split_rows: int               # at most so many rows are
    split_weights: int            # where there are at least so many weights
    block: int                    # channels stored together where the rows of a product are turned in memory

    def convolution(self, channels: int, height: int, width: int, rows: int = 1, streamed: bool = True) -> int:
        """Lanes of a convolution with `channels` outputs per group, `rows` weights each, on a `height` x `width` input.

        The largest power of two that leaves no core idle, up to the most (seen in every convolution Apple's compiler
        packed). Unless the weights are `streamed` a block must also fit what a core keeps.
        """
        cap = self.small_most if max(height, width) <= self.small_side else self.most
        lanes = min(cap, left_over_lanes(channels, self.cores))
        while lanes > 1 and not streamed and 2 * rows * lanes > self.kept:
            lanes //= 2
        return lanes

    def product(self, rows: int, reduction: int, channels: int) -> int:
        """Lanes of a matrix product [rows, reduction] x [reduction, channels]: the most; beyond `streamed` rows also at
        most `product_weights` / reduction (seen in Apple's products)."""
        lanes = min(self.most, left_over_lanes(channels, self.cores))
        if rows > self.streamed:
            lanes = min(lanes, max(1, 2 ** max(0, (self.product_weights // reduction).bit_length() - 1)))
        return lanes

    def runtime_product(self, rows: int) -> int:
        """Rows per core of a product's coefficients that are computed at run time.

        1 for as many rows as there are cores or an odd number; else the even divisor for which parts times lanes is
        smallest, the largest of equals. Seen: 16 and 375 rows take 1, 32, 48 and 96 take 2, 64 and 192 take 4, 128 and
        256 take 8.
        """
        fitting = [lanes for lanes in self.runtime if rows % lanes == 0]
        if rows <= self.cores or not fitting:
            return 1
        return min(fitting, key=lambda lanes: len(list(self.row_parts(rows, lanes))) * lanes)

    def row_parts(self, rows: int, lanes: int) -> Iterator[tuple[int, int]]:
        """(start, count) of the products that together make `rows` rows, last part first: each takes all cores, what is
        left over powers of two of them (375 rows: 1, 2, 4, then 23 times 16)."""
        parts, start = [], 0
        while start < rows:
            cores = min(self.cores, 2 ** (((rows - start) // lanes).bit_length() - 1))
            parts.append((start, cores * lanes))
            start += cores * lanes
        yield from reversed(parts)

    def task_channels(self, channels: int, rows: int, lanes: int, limit: int, head: int = 0) -> int:
        """Output channels of one task when a core may have `limit` bytes of coefficients: all, or whole rounds of
        blocks.

        `rows` counts the bias; `head` are the bytes before the first block. Evidence: Apple splits products of more
        than 128 rows at 64 KiB a core (a table of 128 bytes makes 3 tasks of 2 full ones), and 3x3 convolutions of 512
        and more inputs at the largest block below that.
        """
        rounds = max(1, (limit - head) // (2 * rows * lanes))
        fit = self.cores * lanes * rounds
        return channels if channels <= fit else fit

    def split_height(self, rows: int, reduction: int, columns: int) -> int:
        """H of the H x `split_width` pixels that `rows` rows of a product are laid out as, 1 for one row of pixels.

        Seen: 16 and 32 rows with 2048 to 8192 inputs and outputs are split, 32 rows of 256 x 128 are not; 64 rows are
        where there are four times as many outputs as inputs or more, not where there are twice as many; 8 and fewer,
        and 128 and more, never. Between those the bound is inferred.
        """
        if not self.split_width < rows <= self.split_rows or rows % self.split_width:
            return 1
        pays = columns >= 4 * reduction if rows == self.split_rows else reduction * columns >= self.split_weights
        return rows // self.split_width if pays else 1
