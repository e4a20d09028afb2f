"""The command buffer and the bootstrap buffer of a program: written by the backend, reachable for nobody else.

The engine fetches the first task from the bootstrap buffer, where its network identifier is the driver's, and the tasks
after it from the command buffer. Buffers lie side by side in one address space with those of all clients, so at every
submission the bytes are compared with those that were verified: the tasks whole, the constants block by block in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from openane.chips import get_chip
from openane.devices.closing import every
from openane.devices.linux.buffers import BufferObject
from openane.devices.linux.connection import Connection
from openane.devices.linux.interface import BOOTSTRAP_NID, CHANNELS, COMMAND_CHANNEL, CONSTANT_CHANNEL, Submit
from openane.errors import DeviceRejected
from openane.formats.tasks import CONSTANT_ALIGNMENT, command_bytes, compatible
from openane.program import Constants, Program, Task
from openane.program.patch import ByteRange
from openane.program.verify import Verified, verify
from openane.rounding import round_up

MOST_TASKS = 0xFFFF
"""The driver writes the number next to other fields without looking at its size."""
BLOCK = 1 << 16
"""Bytes of constants compared per submission."""


class Commands:
    """The tasks and constants of a program in the driver's memory."""

    def __init__(self, connection: Connection, program: Program) -> None:
        """`program` is what `for_channels` returned."""
        self._name = program.name
        self._task_count, self._first_size = len(program.tasks), program.tasks[0].size
        payload, first = command_bytes(program), bootstrap(program)
        self._text, self._first, self._constants = (np.frombuffer(data, np.uint8) for data in
                                                    (program.text(), first, program.constants))
        self._behind, self._block = round_up(self._text.size, CONSTANT_ALIGNMENT), 0
        size = max(len(payload), self._text.size + 1)  # the driver wants more bytes than the text has
        self._command = BufferObject(connection, size, f"command buffer of {program.name!r}")
        try:
            self._bootstrap = BufferObject(connection, len(first), f"bootstrap buffer of {program.name!r}")
        except BaseException:
            self._command.close()
            raise
        for buffer, data in ((self._command, payload), (self._bootstrap, first)):
            buffer.array()[:len(data)] = np.frombuffer(data, np.uint8)

    def submission(self, channels: dict[int, int]) -> bytes:
        """The SUBMIT structure with buffer handles by channel."""
        handles = [0] * CHANNELS
        for channel, handle in channels.items():
            handles[channel] = handle
        handles[COMMAND_CHANNEL], handles[CONSTANT_CHANNEL] = self._command.handle, 0
        return bytes(Submit(self._text.size, self._task_count, self._first_size, tuple(handles),
                            self._bootstrap.handle).pack())

    def check(self) -> None:
        """DeviceRejected when bytes are no longer those that were verified."""
        self._same(self._command, 0, self._text)
        self._same(self._bootstrap, 0, self._first)
        block = self._constants[self._block:self._block + BLOCK]
        self._same(self._command, self._behind + self._block, block)
        self._block = self._block + BLOCK if self._block + BLOCK < self._constants.size else 0

    def rewrite(self, constants: Constants, ranges: Sequence[ByteRange]) -> None:
        """Other constants, of which the bytes `ranges` differ from those of before."""
        new, held = np.frombuffer(constants, np.uint8), self._command.array()
        for low, high in ranges:
            held[self._behind + low:self._behind + high] = new[low:high]
        self._constants = new

    def close(self) -> None:
        """Frees both buffers."""
        every([self._command.close, self._bootstrap.close])

    def _same(self, buffer: BufferObject, start: int, wanted: np.ndarray) -> None:
        found = buffer.array()[start:start + wanted.size]
        if found.tobytes() != wanted.tobytes():
            place = start + int(np.argmax(found != wanted))
            raise DeviceRejected(f"submitting {self._name!r}", (
                f"byte {place:#x} of its {buffer.name.partition(' of ')[0]} is no longer what was verified: something "
                "else wrote there; load the program anew",))


def for_channels(verified: Verified) -> Program:
    """The program as the driver takes it: every task with the full kernel-DMA record. DeviceRejected when the driver
    cannot take it; VerifyError when the tasks in this form break a rule."""
    program = verified.program
    reasons = [f"it has {len(program.tasks)} tasks; the driver counts up to {MOST_TASKS}"
               ] if len(program.tasks) > MOST_TASKS else []
    reasons += [f"buffer {buffer.name!r} has slot {buffer.slot}; the driver binds slots 2 to {CHANNELS - 1}"
                for buffer in program.buffers
                if not max(COMMAND_CHANNEL, CONSTANT_CHANNEL) < buffer.slot < CHANNELS]
    if reasons:
        raise DeviceRejected(f"loading {program.name!r}", reasons)
    fitting = compatible(program, {})
    return program if fitting.tasks == program.tasks else verify(fitting).program


def bound_slots(program: Program) -> frozenset[int]:
    """The slots the tasks name, but those of text and constants."""
    chip = get_chip(program.chip)
    named = {slot for task in program.tasks for slot in chip.enabled_slots(chip.decode(task.words)).values()}
    return frozenset(named - {COMMAND_CHANNEL, CONSTANT_CHANNEL})


def bootstrap(program: Program) -> bytes:
    """The first task with the network identifier of the driver's queue."""
    chip = get_chip(program.chip)
    fields = chip.decode(program.tasks[0].words)
    words = chip.encode(replace(fields, values={**fields.values, "Header.Task.NID": BOOTSTRAP_NID}))
    return replace(program, tasks=(Task(tuple(words)),)).text()
