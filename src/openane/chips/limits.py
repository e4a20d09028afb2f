"""What the fields and memories of a generation allow: the one record that everything outside `chips` asks."""

from __future__ import annotations

from collections.abc import Iterable
from math import gcd

from openane.chips.coefficients import CoefficientFormat
from openane.chips.lanes import LaneRules
from openane.record_classes import dataclass
from openane.rounding import ceil_div, round_up


@dataclass(frozen=True, slots=True)
class Banks:
    """How tensors are spread over the banks of the L2 scratchpad: `count` banks with lines of `line` bytes, of which up
    to `rows` rows are read at a time."""

    count: int
    line: int
    rows: int

    def row_pad(self, line: int, rows: int | None = None) -> int:
        """Rule: the bytes each of `rows` rows of `line` bytes is padded by in L2 so that they do not share banks.

        Up to as many rows as are read at a time must begin in different banks, and no row in the bank beside the row
        before (inferred). That gives the pitch of every tensor and planar ring of several rows in the recorded programs
        of Apple's compiler for H13: rows of 1, 8, 32 and 96 lines are padded by one, of 64, 128 and 4096 by two, of 84
        and two rows of 8 by none.
        """
        cells = ceil_div(line, self.line)
        together = self.rows if rows is None else min(rows, self.rows)
        return self.line * next(pad for pad in range(self.count)
                                if self.count // gcd(cells + pad, self.count) >= together
                                and (cells + pad) % self.count not in (1, self.count - 1))


@dataclass(frozen=True, slots=True)
class BaseSlots:
    """The base-address slots of a program: what text, constants and scratch memory are bound to, the first of its
    inputs and outputs, and how many there are. `data_set` is the slot tasks name beside those of their operands without
    memory behind it, `kernels_apart` whether the kernel DMA reads from sections of its own."""

    text: int
    constants: int
    scratch: int
    first_port: int
    count: int
    data_set: int | None = None
    kernels_apart: bool = False

    @property
    def ports(self) -> int:
        """Inputs and outputs a program can have."""
        return self.count - self.first_port - self.kernels_apart

    @property
    def taken(self) -> tuple[int, ...]:
        """The slots that no buffer can have."""
        return tuple(slot for slot in (self.text, self.constants, self.data_set) if slot is not None)

    def first_kernels(self, ports: Iterable[int]) -> int | None:
        """The slot of the first section that the kernel DMA reads, in a program whose buffers have the slots `ports`:
        the one after the last of them. None where it reads from the constants' slot."""
        return max((self.first_port - 1, *ports)) + 1 if self.kernels_apart else None


@dataclass(frozen=True, slots=True)
class Limits:
    """What the field widths and memories of a generation allow. Bytes unless said otherwise."""

    memory_alignment: int      # addresses and strides of memory accesses
    l2_alignment: int          # addresses and strides of L2 accesses
    l2_size: int
    kernel_memory: int         # coefficients one operation may bring in
    width: int                 # largest W, H in elements
    height: int
    channels: int              # largest C per group
    groups: int                # largest N
    depth: int
    kernel_width: int
    kernel_height: int
    padding: int
    stride: int
    tasks: int                 # tasks of a program: what their numbers can count
    addresses: int             # bytes that addresses reach
    task_alignment: int        # offsets of tasks in the text
    first_task: int            # offset of the first of them
    burst: int                 # a row of a memory access is moved in whole bursts
    page: int                  # scratch memory is given out in multiples of this
    streams_repeats: bool      # a second operand can be broadcast on its way from memory
    pairs: bool                # channels laid side by side are multiplied in pairs where a product follows a table
    statistic: int             # a broadcast tensor of at most so many bytes is placed in L2 as statistics are
    tile_width: int            # elements of the narrowest tile a streamed operand passes through L2 in
    banks: Banks
    slots: BaseSlots
    lanes: LaneRules
    coefficients: CoefficientFormat
    planar_first: bool = True      # tensors that only the planar engine writes get their place in L2 before others
    assumed: tuple[str, ...] = ()  # limits above that are carried over from an earlier generation or a field's width

    @property
    def cores(self) -> int:
        """Cores of the neural engine that streams are for; a chip may have fewer (see `machines`)."""
        return self.coefficients.cores

    def alignment(self, near: bool) -> int:
        """What addresses and strides are multiples of: in L2 (`near`) or in memory."""
        return self.l2_alignment if near else self.memory_alignment

    def memory_row(self, size: int) -> int:
        """Bytes a row of `size` bytes takes in memory."""
        return round_up(size, self.memory_alignment)

    def l2_row(self, size: int) -> int:
        """Bytes a row of `size` bytes takes in L2."""
        return round_up(size, self.l2_alignment)


__all__ = ["Banks", "BaseSlots", "Limits"]
