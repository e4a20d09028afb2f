"""H13: how task descriptors are laid out, and the register runs compilers write."""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips.chip import TaskFields
from openane.chips.h13.registers import HEADER_BANK, KERNEL_DMA, STREAM_BANK
from openane.chips.stream import StreamFormat
from openane.registers import Block, Fields

MAXIMUM_WORDS = 512  # Header.Next.NextSize has nine bits
EXTENDED_SLOT = 3    # coefficients read through this slot were written by an earlier task: the DTID names it

FULL_KERNEL_DMA = ((KERNEL_DMA.base, 62),)
SPLIT_KERNEL_DMA = ((KERNEL_DMA.base, 18), (KERNEL_DMA.by_name["AuxDMAConfig[0]"][0], 12))


def _run(block: Block) -> tuple[int, int]:
    return block.base, sum(register.count for register in block.registers)


BODY_RUNS = tuple(_run(block) for block in STREAM_BANK.blocks if block is not KERNEL_DMA)

FORMS = {"full": FULL_KERNEL_DMA + BODY_RUNS, "split": SPLIT_KERNEL_DMA + BODY_RUNS}
"""The register runs of tasks as compilers write them: with the kernel DMA's 62 words whole, or in two runs."""


def _extended(header: Fields) -> tuple[bool, ...]:
    """Whether an eleventh header word (the DTID) follows is stated by Control.TDE and implied by KBase0; samples
    agree on both. Where they disagree the reading whose runs end exactly with the task is taken."""
    stated = bool(header["Header.Control.TDE"])
    implied = int(header["Header.KernelBases.KBase0"]) == EXTENDED_SLOT
    return (stated,) if stated == implied else (stated, implied)


FORMAT = StreamFormat(HEADER_BANK, STREAM_BANK, MAXIMUM_WORDS, _extended)
HEADER_WORDS = FORMAT.header_words


def decode_task(words: Sequence[int]) -> TaskFields:
    """Named fields of a task descriptor. ProgramError when it is none."""
    return FORMAT.decode(words)


def encode_task(fields: TaskFields) -> tuple[int, ...]:
    """The words of a task, built from zero: its header, then every run of `records`."""
    return FORMAT.encode(fields)


__all__ = ["BODY_RUNS", "EXTENDED_SLOT", "FORMAT", "FORMS", "FULL_KERNEL_DMA", "HEADER_WORDS", "SPLIT_KERNEL_DMA",
           "decode_task", "encode_task"]
