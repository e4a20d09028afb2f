"""IOSurfaces: the memory the engine and the host share on macOS.

A surface is created from a dictionary of its properties, holds at least `AllocSize` bytes, and its address may be used
only between IOSurfaceLock and IOSurfaceUnlock with the same flag. Two forms are known to be taken by the runtime: flat
(one row of bytes) and strided (16-bit elements, rows of a multiple of 64 bytes).
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from threading import Lock
from typing import TypeVar

import numpy as np

from openane.devices.macos.foundation import Foundation
from openane.devices.macos.objc import POINTER, ObjC
from openane.devices.macos.symbols import CORE_FOUNDATION, IO_SURFACE, RuntimeSymbols
from openane.errors import DeviceChanged, DeviceError, SubmitFailed
from openane.rounding import round_up

READ_ONLY = 1
"""Flag of lock and unlock: the host only reads."""
LARGEST = 1 << 34
"""Bytes of the largest surface that is asked for."""
ROW_ALIGNMENT = 64
HALF_FORMAT = int.from_bytes(b"L00h", "big")
"""Pixel format of the strided form: one 16-bit float per pixel."""

Result = TypeVar("Result")


class Surfaces:
    """Makes surfaces. `live` counts those not released."""

    def __init__(self, symbols: RuntimeSymbols, objc: ObjC, foundation: Foundation) -> None:
        """DeviceUnavailable or DeviceChanged where a function or key is missing."""
        self._symbols, self._foundation = symbols, foundation
        uint32, int32 = ctypes.c_uint32, ctypes.c_int32
        self.create = objc.function(IO_SURFACE, "IOSurfaceCreate", POINTER, POINTER)
        self.lock = objc.function(IO_SURFACE, "IOSurfaceLock", int32, POINTER, uint32, POINTER)
        self.unlock = objc.function(IO_SURFACE, "IOSurfaceUnlock", int32, POINTER, uint32, POINTER)
        self.address = objc.function(IO_SURFACE, "IOSurfaceGetBaseAddress", POINTER, POINTER)
        self.allocated = objc.function(IO_SURFACE, "IOSurfaceGetAllocSize", ctypes.c_size_t, POINTER)
        self.release = objc.function(CORE_FOUNDATION, "CFRelease", None, POINTER)
        self._keys = {word: self._key(f"kIOSurface{word}") for word in
                      ("Width", "Height", "BytesPerElement", "BytesPerRow", "AllocSize", "PixelFormat")}
        self._counting = Lock()
        self.live = 0

    def flat(self, size: int) -> Surface:
        """A surface of `size` bytes in one row. Call it inside a pool. DeviceError when the system gives none."""
        return self._made({"Width": size, "Height": 1, "BytesPerElement": 1, "BytesPerRow": size, "AllocSize": size,
                           "PixelFormat": 0}, size)

    def strided(self, width: int, rows: int) -> Surface:
        """A surface of `rows` rows of `width` 16-bit elements, rows padded to 64 bytes. As `flat`."""
        row = round_up(2 * width, ROW_ALIGNMENT)
        return self._made({"Width": width, "Height": rows, "BytesPerElement": 2, "BytesPerRow": row,
                           "AllocSize": row * rows, "PixelFormat": HALF_FORMAT}, row * rows)

    def count(self, change: int) -> None:
        """Keeps `live`."""
        with self._counting:
            self.live += change

    def _made(self, properties: Mapping[str, int], size: int) -> Surface:
        if not 0 < size <= LARGEST:
            raise DeviceError(f"a surface has 1 to {LARGEST} bytes, not {size}")
        entries = {self._keys[word]: self._foundation.number(value) for word, value in properties.items()}
        reference = self.create(self._foundation.dictionary(entries))
        if not reference:
            raise DeviceError(f"the system made no surface of {size} bytes")
        return Surface(self, reference, size)

    def _key(self, name: str) -> int:
        try:
            address = self._symbols.data(IO_SURFACE, name)
        except KeyError:
            raise DeviceChanged(f"{name} of {IO_SURFACE}", expected="an exported string", found="none") from None
        return ctypes.c_void_p.from_address(address).value or 0


class Surface:
    """One surface. Released once, by `close`."""

    def __init__(self, surfaces: Surfaces, reference: int, size: int) -> None:
        """Takes over the reference. DeviceError when fewer bytes were allocated than asked for."""
        self._surfaces, self.reference, self.size = surfaces, reference, size
        surfaces.count(1)
        allocated = surfaces.allocated(reference)
        if allocated < size:
            self.close()
            raise DeviceError(f"the system allocated {allocated} bytes for a surface of {size}")

    def use(self, action: Callable[[np.ndarray], Result], read_only: bool = False) -> Result:
        """Calls `action` with the bytes (uint8) while the surface is locked; the array must not be kept.

        SubmitFailed when the system does not lock it; DeviceError when the array was kept.
        """
        if not self.reference:
            raise DeviceError("the surface was released")
        flag = READ_ONLY if read_only else 0
        code = self._surfaces.lock(self.reference, flag, None)
        if code:
            raise SubmitFailed("IOSurfaceLock", domain="IOKit", code=ctypes.c_uint32(code).value,
                               text="the surface could not be locked")
        try:
            address = self._surfaces.address(self.reference)
            if not address:
                raise SubmitFailed("IOSurfaceGetBaseAddress", domain="IOKit", code=0, text="the surface has no address")
            bytes_ = memoryview((ctypes.c_uint8 * self.size).from_address(address)).cast("B")
            result = action(np.frombuffer(bytes_.toreadonly() if read_only else bytes_, np.uint8))
        finally:
            self._surfaces.unlock(self.reference, flag, None)
        return result

    def close(self) -> None:
        """Gives the surface back. Closing twice does nothing."""
        reference, self.reference = self.reference, 0
        if reference:
            self._surfaces.release(reference)
            self._surfaces.count(-1)
