"""Task descriptors as streams of register writes: words to named fields and back."""

from __future__ import annotations

from collections.abc import Sequence

from openane.chips.chip import TaskFields
from openane.chips.h13.registers import COMMON, HEADER, HEADER_BANK, KERNEL_DMA, RUN_HEADER, STREAM_BANK
from openane.errors import ProgramError
from openane.registers import Block, Fields

HEADER_WORDS = 10
MAXIMUM_WORDS = 512  # Header.Next.NextSize has nine bits

FULL_KERNEL_DMA = ((KERNEL_DMA.base, 62),)
SPLIT_KERNEL_DMA = ((KERNEL_DMA.base, 18), (KERNEL_DMA.by_name["AuxDMAConfig[0]"][0], 12))


def _run(block: Block) -> tuple[int, int]:
    return block.base, sum(register.count for register in block.registers)


BODY_RUNS = tuple(_run(block) for block in STREAM_BANK.blocks if block is not KERNEL_DMA)

FORMS = {"full": FULL_KERNEL_DMA + BODY_RUNS, "split": SPLIT_KERNEL_DMA + BODY_RUNS}
"""The register runs of tasks as compilers write them: with the kernel DMA's 62 words whole, or in two runs."""


def decode_task(words: Sequence[int]) -> TaskFields:
    """Named fields of a task descriptor.

    Whether an eleventh header word (the DTID) follows is stated by Header.Control.TDE and implied by KBase0 = 3;
    samples agree on both. Where they disagree the reading whose runs end exactly with the task is taken.
    Raises ProgramError when neither does.
    """
    if not HEADER_WORDS < len(words) <= MAXIMUM_WORDS:
        raise ProgramError(f"a task has {HEADER_WORDS + 1} to {MAXIMUM_WORDS} words, not {len(words)}")
    header = {4 * i: word for i, word in enumerate(words[:HEADER_WORDS])}
    fields, rest = HEADER_BANK.decode(header)
    extended = bool(fields["Header.Control.TDE"])
    try:
        written, records = _read_runs(words, HEADER_WORDS + extended)
    except ProgramError:
        if extended == (int(fields["Header.KernelBases.KBase0"]) == 3):
            raise
        extended = not extended
        written, records = _read_runs(words, HEADER_WORDS + extended)
    if extended:
        more, more_rest = HEADER_BANK.decode({4 * HEADER_WORDS: words[HEADER_WORDS]})
        fields |= more
        rest |= more_rest
    body, body_rest = STREAM_BANK.decode(written)
    return TaskFields(fields | body, rest | body_rest, records)


def encode_task(fields: TaskFields) -> tuple[int, ...]:
    """The words of a task, built from zero: its header, then every run of `records`."""
    header_values: Fields = {k: v for k, v in fields.values.items() if k.startswith("Header.")}
    header_rest = {k: v for k, v in fields.rest.items() if k.startswith("Header.")}
    header = HEADER_BANK.encode(header_values, header_rest, range(0, 4 * HEADER_WORDS, 4))
    addresses = [base + 4 * i for base, count in fields.records for i in range(count)]
    if len(set(addresses)) != len(addresses):
        raise ProgramError("two runs of a task write the same register")
    body_values: Fields = {k: v for k, v in fields.values.items() if not k.startswith("Header.")}
    body_rest = {k: v for k, v in fields.rest.items() if not k.startswith("Header.")}
    body = STREAM_BANK.encode(body_values, body_rest, addresses)
    missing = set(body) - set(addresses)
    if missing:
        name = STREAM_BANK.by_address.get(min(missing), (hex(min(missing)),))[0]
        raise ProgramError("the register is outside every run of the task", register=name)
    words = [header[a] for a in sorted(header)]
    for base, count in fields.records:
        words.append(RUN_HEADER.encode({"Address": base, "Count": count}))
        words += [body[base + 4 * i] for i in range(count)]
    return tuple(words)


def _read_runs(words: Sequence[int], start: int) -> tuple[dict[int, int], tuple[tuple[int, int], ...]]:
    written: dict[int, int] = {}
    records: list[tuple[int, int]] = []
    position = start
    while position < len(words):
        run, rest = RUN_HEADER.decode(words[position])
        base, count = int(run["Address"]), int(run["Count"])
        if rest or base % 4 or position + 1 + count > len(words):
            raise ProgramError(f"word {position} (0x{words[position]:08x}) is not the head of a run of register "
                               f"writes that fits the task's {len(words)} words")
        for i in range(count):
            if base + 4 * i in written:
                raise ProgramError(f"word {position + 1 + i} writes register 0x{base + 4 * i:x} a second time")
            written[base + 4 * i] = words[position + 1 + i]
        records.append((base, count))
        position += 1 + count
    return written, tuple(records)


__all__ = ["BODY_RUNS", "COMMON", "FORMS", "FULL_KERNEL_DMA", "HEADER", "HEADER_WORDS", "SPLIT_KERNEL_DMA", "decode_task",
           "encode_task"]
