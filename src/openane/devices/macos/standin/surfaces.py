"""IOSurface and the part of CoreFoundation that goes with it: memory shared with the engine, under its locking rules.

A surface is described by a dictionary of numbers: width and height in elements, bytes per element and per row, the
size to allocate, a pixel format. The processor may touch it between IOSurfaceLock and IOSurfaceUnlock with the same
options (1: only reading); the base address is asked for while it is locked. The system does not check this and gives
stale data; here a violation is noted and the address withheld. Writes outside a lock, or under a lock for reading, are
told by a checksum.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Mapping, Sequence
from itertools import count
from mmap import PAGESIZE, mmap
from typing import Any

import numpy as np

from openane.devices.macos.standin import foundation
from openane.devices.macos.standin.definitions import ClassDefinition, Instance, Method
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.symbols import CORE_FOUNDATION, IO_SURFACE
from openane.record_classes import dataclass
from openane.rounding import round_up

READ_ONLY = 1
BAD_ARGUMENT = -0x1FFFFD3E
"""kIOReturnBadArgument, 0xE00002C2, as the signed number the functions return."""
CANNOT_LOCK = -0x1FFFFD34
"""kIOReturnCannotLock, 0xE00002CC."""
LARGEST = 2**31
KEYS = ("Width", "Height", "BytesPerElement", "BytesPerRow", "AllocSize", "PixelFormat")
_NUMBERS: Mapping[int, Any] = {1: ctypes.c_int8, 2: ctypes.c_int16, 3: ctypes.c_int32, 4: ctypes.c_int64,
                               8: ctypes.c_short, 9: ctypes.c_int, 10: ctypes.c_long, 11: ctypes.c_longlong,
                               14: ctypes.c_long}
"""kCFNumber types of whole numbers."""


class StandinSurface:
    """Memory of a surface and who holds it. `data` is its bytes as the engine sees them."""

    def __init__(self, number: int, description: Mapping[str, int], size: int) -> None:
        self.number, self.description, self.size = number, dict(description), size
        self.data = np.frombuffer(mmap(-1, round_up(size, PAGESIZE)), np.uint8)[:size]
        self.locks: list[int] = []
        self._sum = zlib.crc32(self.data.data)

    @property
    def address(self) -> int:
        """Where the bytes are."""
        return int(self.data.ctypes.data)

    def lock(self, runtime: Runtime, options: int) -> int:
        """IOSurfaceLock."""
        if runtime.faults.lock:
            return CANNOT_LOCK
        if not self.locks:
            self.check(runtime, "while it was not locked")
        self.locks.append(options)
        return 0

    def unlock(self, runtime: Runtime, options: int) -> int:
        """IOSurfaceUnlock."""
        if options not in self.locks:
            runtime.problem(f"surface {self.number} was unlocked with options {options}, its locks are {self.locks}")
            return BAD_ARGUMENT
        self.locks.remove(options)
        if not self.locks:
            if options == READ_ONLY:
                self.check(runtime, "under a lock for reading")
            self.settle()
        return 0

    def check(self, runtime: Runtime, when: str) -> None:
        """Notes a change of the bytes nobody was allowed to make."""
        if zlib.crc32(self.data.data) != self._sum:
            runtime.problem(f"surface {self.number} was written {when}")
            self.settle()

    def settle(self) -> None:
        """Takes the bytes for what they should be."""
        self._sum = zlib.crc32(self.data.data)

    def close(self, runtime: Runtime) -> None:
        """Called when the last owner let go."""
        if self.locks:
            runtime.problem(f"surface {self.number} was released while it was locked")


@dataclass(frozen=True, slots=True)
class CFunction:
    """A C function: result and argument types, and what is called with (runtime, arguments...)."""

    result: Any
    arguments: Sequence[Any]
    call: Any


POINTER = ctypes.c_size_t
"""Pointers arrive as numbers, NULL as 0."""


def _create(runtime: Runtime, handle: int) -> int:
    given = runtime.instance(handle)
    if given is None or not given.isa("NSDictionary"):
        return 0
    values = {key.removeprefix("IOSurface"): value for key, value in foundation.to_python(given).items()}
    wanted = {key: values.get(key, 0) for key in KEYS}
    if not all(isinstance(value, int) and 0 <= value <= LARGEST for value in wanted.values()):
        runtime.problem(f"a surface was described by {values}; its numbers are whole, from 0 to {LARGEST}")
        return 0
    row = wanted["BytesPerRow"] or wanted["Width"] * max(1, wanted["BytesPerElement"])
    size = wanted["AllocSize"] or row * wanted["Height"]
    if not 0 < size <= LARGEST or row * wanted["Height"] > size or wanted["Width"] * wanted["BytesPerElement"] > row:
        return 0
    surface = StandinSurface(_next_number(runtime), {**wanted, "BytesPerRow": row}, size)
    return runtime.make("IOSurface", surface).handle


def _next_number(runtime: Runtime) -> int:
    taken = {each.value.number for each in _surfaces(runtime)}
    return next(number for number in count(1) if number not in taken)


def _surfaces(runtime: Runtime) -> list[Instance]:
    return [each for each in list(runtime.objects.values())
            if isinstance(each, Instance) and each.kind.name == "IOSurface"]


def surface_of(runtime: Runtime, handle: int) -> StandinSurface:
    """The surface behind an IOSurfaceRef. Ends the process for anything else."""
    found = runtime.instance(handle)
    if found is None or not isinstance(found.value, StandinSurface):
        runtime.end(f"EXC_BAD_ACCESS: {handle:#x} is no IOSurface")
        raise ValueError("no surface")
    return found.value


def _base(runtime: Runtime, handle: int) -> int:
    surface = surface_of(runtime, handle)
    if not surface.locks:
        runtime.problem(f"the address of surface {surface.number} was asked for while it was not locked")
        return 0
    return surface.address


def _find(runtime: Runtime, number: int) -> int:
    found = next((each for each in _surfaces(runtime) if each.value.number == number), None)
    return runtime.retain(found).handle if found else 0


def _release(runtime: Runtime, handle: int) -> None:
    found = runtime.instance(handle)
    if found is None:
        runtime.end("CFRelease() called with NULL")
    else:
        runtime.release(found)


def _retain(runtime: Runtime, handle: int) -> int:
    found = runtime.instance(handle)
    if found is None:
        return runtime.end("CFRetain() called with NULL")
    return runtime.retain(found).handle


def _number(runtime: Runtime, _: int, kind: int, address: int) -> int:
    if kind not in _NUMBERS or not address:
        return 0
    return runtime.make(foundation.NUMBER, _NUMBERS[kind].from_address(address).value).handle


def _dictionary(runtime: Runtime, _: int, keys: int, values: int, length: int, *callbacks: int) -> int:
    if not all(callbacks):
        runtime.problem("CFDictionaryCreate was called without the callbacks that retain its contents")
    sides = [[runtime.instance(each) for each in (POINTER * length).from_address(side)] if length else []
             for side in (keys, values)]
    pairs = list(zip(*sides, strict=True))
    owned = [each for pair in pairs for each in pair if each is not None]
    return runtime.make(foundation.DICTIONARY, pairs, owned).handle


def _text(runtime: Runtime, _: int, text: bytes | None, encoding: int) -> int:
    return 0 if text is None else runtime.make(foundation.STRING, text.decode()).handle


def _described(key: str) -> CFunction:
    return CFunction(POINTER, [POINTER], lambda runtime, handle: surface_of(runtime, handle).description[key])


SURFACE_FUNCTIONS: Mapping[str, CFunction] = {
    "IOSurfaceCreate": CFunction(POINTER, [POINTER], _create),
    "IOSurfaceLookup": CFunction(POINTER, [ctypes.c_uint32], _find),
    "IOSurfaceGetID": CFunction(ctypes.c_uint32, [POINTER], lambda runtime, handle: surface_of(runtime, handle).number),
    "IOSurfaceLock": CFunction(ctypes.c_int32, [POINTER, ctypes.c_uint32, POINTER], lambda runtime, handle, options, _:
                               surface_of(runtime, handle).lock(runtime, options)),
    "IOSurfaceUnlock": CFunction(ctypes.c_int32, [POINTER, ctypes.c_uint32, POINTER], lambda runtime, handle, options,
                                 _:
                                 surface_of(runtime, handle).unlock(runtime, options)),
    "IOSurfaceGetBaseAddress": CFunction(POINTER, [POINTER], _base),
    "IOSurfaceGetAllocSize": CFunction(POINTER, [POINTER], lambda runtime, handle: surface_of(runtime, handle).size),
    "IOSurfaceGetWidth": _described("Width"),
    "IOSurfaceGetHeight": _described("Height"),
    "IOSurfaceGetBytesPerRow": _described("BytesPerRow"),
    "IOSurfaceGetBytesPerElement": _described("BytesPerElement"),
}

CORE_FUNCTIONS: Mapping[str, CFunction] = {
    "CFRetain": CFunction(POINTER, [POINTER], _retain),
    "CFRelease": CFunction(None, [POINTER], _release),
    "CFGetRetainCount": CFunction(ctypes.c_long, [POINTER], lambda runtime, handle:
                                  getattr(runtime.instance(handle), "retains", 0)),
    "CFNumberCreate": CFunction(POINTER, [POINTER, ctypes.c_long, POINTER], _number),
    "CFStringCreateWithCString": CFunction(POINTER, [POINTER, ctypes.c_char_p, ctypes.c_uint32], _text),
    "CFDictionaryCreate": CFunction(POINTER, [POINTER, POINTER, POINTER, ctypes.c_long, POINTER, POINTER], _dictionary),
}

CONSTANT_STRINGS: Mapping[str, Mapping[str, str]] = {
    IO_SURFACE: {f"kIOSurface{key}": f"IOSurface{key}" for key in KEYS},
    CORE_FOUNDATION: {},
}
"""CFStringRef variables by library: name and text. Inferred: the texts are the names without the k."""

CORE_VARIABLES = ("kCFTypeDictionaryKeyCallBacks", "kCFTypeDictionaryValueCallBacks", "kCFAllocatorDefault")

CLASSES = (ClassDefinition("IOSurface", IO_SURFACE, methods={
    "allocationSize": Method("q@:", lambda _, me: me.value.size)}),)
