"""Memory that this process and its worker share for the tensors of a model.

The memory has no name in any file system, so that nothing can be left behind: a descriptor is handed to the worker.
"""

from __future__ import annotations

import mmap
import os
import tempfile
from collections.abc import Mapping, Sequence
from math import prod

import numpy as np

from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.errors import DeviceError
from openane.graph import numpy_type
from openane.rounding import round_up

ALIGNMENT = 64
LARGEST = 1 << 34
"""Bytes of all inputs and outputs of one model."""

Tensors = Mapping[str, np.ndarray]


class SharedMemory:
    """Zeroed memory behind a descriptor. The mapping lives as long as arrays over it."""

    def __init__(self, size: int, descriptor: int | None = None) -> None:
        """New memory, or that behind a `descriptor` another process handed over, which is taken over. DeviceError when
        there is not enough memory."""
        self.size = max(size, 1)
        self.descriptor = -1
        try:
            self.descriptor = _made(self.size) if descriptor is None else descriptor
            self.bytes = np.frombuffer(mmap.mmap(self.descriptor, self.size), np.uint8)
        except (OSError, ValueError) as error:
            self.close()
            raise DeviceError(f"{self.size} bytes of memory for tensors are not to be had: {error}") from None

    def close(self) -> None:
        """Closes the descriptor; the mapping has one of its own, and ends with the last array over it. Closing twice
        does nothing."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def tensors(program: GraphProgram, memory: np.ndarray) -> tuple[Tensors, Tensors]:
    """Arrays over `memory` for the inputs and outputs of a program, by MIL name; `needed` bytes are used."""
    found: list[dict[str, np.ndarray]] = []
    offset = 0
    for ports in (program.inputs, program.outputs):
        side = {}
        for port in ports:
            size = _size(port)
            side[port.mil] = memory[offset:offset + size].view(numpy_type(port.element)).reshape(port.shape)
            offset += round_up(size, ALIGNMENT)
        found.append(side)
    return found[0], found[1]


def needed(program: GraphProgram) -> int:
    """Bytes of all inputs and outputs. DeviceError beyond what is taken."""
    size = sum(round_up(_size(port), ALIGNMENT) for port in _ports(program))
    if size > LARGEST:
        raise DeviceError(f"the inputs and outputs of {program.name!r} take {size} bytes; the limit is {LARGEST}")
    return size


def _ports(program: GraphProgram) -> Sequence[GraphPort]:
    return (*program.inputs, *program.outputs)


def _size(port: GraphPort) -> int:
    return prod(port.shape) * numpy_type(port.element).itemsize


def _made(size: int) -> int:
    if hasattr(os, "memfd_create"):
        descriptor = os.memfd_create("openane", os.MFD_CLOEXEC)
    else:
        with tempfile.TemporaryFile() as nameless:
            descriptor = os.dup(nameless.fileno())
    try:
        os.ftruncate(descriptor, size)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor
