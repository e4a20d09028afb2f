"""H13: task fields to engine operation and slots."""

from __future__ import annotations

from openane.chips import decode
from openane.chips.chip import Slots, TaskFields
from openane.chips.h13.registers import HEADER_BANK, STREAM_BANK
from openane.chips.reader import Reader
from openane.engine import Operation


def decode_operation(fields: TaskFields) -> Operation:
    """The engine operation of a task. ProgramError names the first field whose mode is not described."""
    return decode.decode_operation(Reader(fields, HEADER_BANK, STREAM_BANK))


def decode_slots(fields: TaskFields) -> Slots:
    """Base-address slots a task reads, writes and takes coefficients from, by its enables."""
    return decode.decode_slots(Reader(fields, HEADER_BANK, STREAM_BANK))
