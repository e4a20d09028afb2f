"""A client of the Linux driver in a few lines: one program in buffer objects of its own, submitted over any Kernel."""

from __future__ import annotations

import gc
import os
import threading

import numpy as np
from support.h13 import layout_of

from openane.chips import get_chip
from openane.devices.linux import interface
from openane.devices.linux.interface import BufferFree, BufferInit, Submit
from openane.devices.linux.kernel import Kernel, Mapping
from openane.engine import Access, Binary, Elementwise, Operation
from openane.program import Buffer, Layout, Program, Role, Task

LAYOUT = layout_of((1, 4, 1, 3, 32))
NID_BYTE = 2
X, STATE, Y = 4, 5, 6


def access(slot: int, layout: Layout = LAYOUT, offset: int = 0) -> Access:
    """A surface at the start of a slot."""
    return Access(slot=slot, offset=offset, shape=layout.shape, strides=layout.strides)


def addition(first: Access | None = None, second: Access | None = None, result: Access | None = None) -> Elementwise:
    """y = x + state, or other operands."""
    return Elementwise(first=first or access(X), second=second or access(STATE), result=result or access(Y),
                       function=Binary.ADD)


def program(*operations: Operation, layout: Layout = LAYOUT) -> Program:
    """Operations on the buffers x, state and y."""
    tasks = get_chip("h13").emit(operations or [addition()])
    buffers = [Buffer(name, slot, role, layout.size, layout) for name, slot, role in
               (("x", X, Role.INPUT), ("state", STATE, Role.STATE), ("y", Y, Role.OUTPUT))]
    return Program("h13", tuple(Task(t.words, t.offset) for t in tasks), buffers=tuple(buffers))


class Client:
    """An open file with a program in it. `arrays` are the buffers' bytes by name, `text` the commands."""

    def __init__(self, kernel: Kernel, loaded: Program) -> None:
        self.kernel, self.program = kernel, loaded
        self.fd = kernel.open(kernel.nodes()[0])
        self.mappings: dict[int, Mapping] = {}
        self.arrays: dict[str, np.ndarray] = {}
        self.handles: dict[str, int] = {}
        try:
            self._load()
        except OSError:
            self.close_all()
            raise

    def _load(self) -> None:
        text, constants, first = self.program.text(), self.program.constants, self.program.tasks[0].size
        contents = text.ljust(-(-len(text) // interface.COMMAND_GRANULE) * interface.COMMAND_GRANULE, b"\0") + constants
        bootstrap = bytearray(text[:first])
        bootstrap[NID_BYTE] = interface.BOOTSTRAP_NID
        self.allocate("commands", max(len(contents), len(text) + 1), contents)
        self.allocate("bootstrap", first, bytes(bootstrap))
        for buffer in self.program.buffers:
            self.allocate(buffer.name, buffer.size, bytes(buffer.size))
        slots = {buffer.slot: self.handles[buffer.name] for buffer in self.program.buffers}
        slots[interface.COMMAND_CHANNEL] = self.handles["commands"]
        self.request = Submit(len(text), len(self.program.tasks), first,
                              tuple(slots.get(i, 0) for i in range(interface.CHANNELS)), self.handles["bootstrap"])

    def allocate(self, name: str, size: int, contents: bytes = b"") -> BufferInit:
        """A mapped buffer object that begins with `contents`; what the driver answered."""
        argument = BufferInit(size=size).pack()
        self.kernel.ioctl(self.fd, interface.BO_INIT, argument)
        answer = BufferInit.unpack(argument)
        self.handles[name] = answer.handle
        self.mappings[answer.handle] = self.kernel.map(self.fd, size, answer.offset)
        self.arrays[name] = np.frombuffer(self.mappings[answer.handle], np.uint8)
        self.arrays[name][:len(contents)] = np.frombuffer(contents, np.uint8)
        return answer

    def submit(self, request: Submit | None = None) -> None:
        """Runs the program once, or another request."""
        self.kernel.ioctl(self.fd, interface.SUBMIT, (request or self.request).pack())

    def tensor(self, name: str) -> np.ndarray:
        """A buffer as fp16 [4, 3, 32]."""
        return self.arrays[name][:LAYOUT.size].view(np.float16).reshape(4, 3, 32)

    def free(self, name: str) -> None:
        """Unmaps and frees a buffer object."""
        handle = self.handles.pop(name)
        self.arrays.pop(name, None)
        mapping = self.mappings.pop(handle, None)
        if mapping is not None:
            mapping.close()
        self.kernel.ioctl(self.fd, interface.BO_FREE, BufferFree(handle).pack())

    def close(self, *, frees: bool = True) -> None:
        """Frees everything, or only unmaps it, and closes the file."""
        for name in list(self.handles):
            if frees:
                self.free(name)
        self.arrays.clear()
        for mapping in self.mappings.values():
            mapping.close()
        self.mappings.clear()
        self.kernel.close(self.fd)

    def close_all(self) -> int:
        """Closes as `close` does, past every failure; how many there were."""
        failures = 0
        for name in list(self.handles):
            try:
                self.free(name)
            except OSError:
                failures += 1
        try:
            self.kernel.close(self.fd)
        except OSError:
            failures += 1
        return failures


def leftovers() -> tuple[int, int, int]:
    """Open descriptors, mappings of driver memory and threads of this process."""
    gc.collect()
    with open("/proc/self/maps") as lines:
        mapped = sum("memfd:ane" in line for line in lines)
    return len(os.listdir("/proc/self/fd")), mapped, threading.active_count()
