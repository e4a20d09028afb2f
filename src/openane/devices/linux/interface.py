"""The interface of the Linux accel driver `ane`: request numbers, structures, constants. Written down once, here.

Source: the driver's public header (eiln/ane); numbers and sizes computed with a C compiler from it. All structures are
little-endian. The driver has no request that tells its version, address window, page size or state.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import ClassVar, Self

from openane.record_classes import dataclass

NODE = "/dev/accel/accel{}"
NODES = 64
DRIVER = "ane"
CHANNELS = 32
"""Handles a submission binds; the number of a channel is the base-address slot the tasks name."""
COMMAND_CHANNEL = 0
"""Task descriptors, followed at the next multiple of `COMMAND_GRANULE` by the constants."""
CONSTANT_CHANNEL = 1
"""Must be 0 in a submission: the driver computes the address of the constants."""
COMMAND_GRANULE = 16
BOOTSTRAP_NID = 0x40
"""Network identifier in the copy of the first task that the engine fetches first."""
TIMEOUT_SECONDS = 1.0
"""How long the driver polls for the end of a submission."""
WINDOW_BASE, WINDOW_SIZE = 0x4000, 0xE000_0000
"""Device addresses of all clients together; there is one address space for the whole device."""

DRM_VERSION = 0xC040_6400
BO_INIT = 0xC018_6441
BO_FREE = 0xC008_6442
SUBMIT = 0xC098_6443
NAMES = {DRM_VERSION: "VERSION", BO_INIT: "BO_INIT", BO_FREE: "BO_FREE", SUBMIT: "SUBMIT"}


@dataclass(slots=True)
class Structure:
    """A structure of the interface: `FORMAT` is what `struct` packs, in the order of the fields."""

    FORMAT: ClassVar[str] = "<"

    @classmethod
    def names(cls) -> tuple[str, ...]:
        """The fields, in order."""
        return tuple(cls.__slots__)

    @classmethod
    def length(cls) -> int:
        """Bytes."""
        return struct.calcsize(cls.FORMAT)

    def pack(self) -> bytearray:
        """The structure's bytes. OverflowError or struct.error when a number does not fit its field."""
        values: list[int] = []
        for name in self.names():
            value = getattr(self, name)
            values += value if isinstance(value, tuple) else (value,)
        return bytearray(struct.pack(self.FORMAT, *values))

    @classmethod
    def unpack(cls, data: bytes | bytearray) -> Self:
        """The structure from its bytes. struct.error when there are too few or too many."""
        values = struct.unpack(cls.FORMAT, data)
        names = cls.names()
        make: Callable[..., Self] = cls
        spare = len(values) - len(names)
        if not spare:
            return make(*values)
        at = names.index("handles")
        return make(*values[:at], values[at:at + spare + 1], *values[at + spare + 1:])


@dataclass(slots=True)
class Version(Structure):
    """DRM VERSION: three numbers and three (length, pointer) pairs. With null pointers it answers the lengths."""

    FORMAT: ClassVar[str] = "<iii4xQQQQQQ"
    major: int = 0
    minor: int = 0
    patch: int = 0
    name_length: int = 0
    name: int = 0
    date_length: int = 0
    date: int = 0
    description_length: int = 0
    description: int = 0


@dataclass(slots=True)
class BufferInit(Structure):
    """BO_INIT: `size` in; `handle` and the offset to map it at out."""

    FORMAT: ClassVar[str] = "<IIQQ"
    handle: int = 0
    pad: int = 0
    size: int = 0
    offset: int = 0


@dataclass(slots=True)
class BufferFree(Structure):
    """BO_FREE."""

    FORMAT: ClassVar[str] = "<II"
    handle: int = 0
    pad: int = 0


@dataclass(slots=True)
class Submit(Structure):
    """SUBMIT: bytes of all tasks, their number, bytes of the first, a handle per channel, the bootstrap buffer."""

    FORMAT: ClassVar[str] = f"<QII{CHANNELS}III"
    text_size: int = 0
    task_count: int = 0
    first_task_size: int = 0
    handles: tuple[int, ...] = (0,) * CHANNELS
    bootstrap: int = 0
    pad: int = 0


STRUCTURES: dict[int, type[Structure]] = {
    DRM_VERSION: Version, BO_INIT: BufferInit, BO_FREE: BufferFree, SUBMIT: Submit,
}
