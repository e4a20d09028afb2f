"""Where the macOS backend finds the system: C functions and data by library and name.

Everything above this file is the same for the system's own libraries and for the stand-in: both hand out addresses that
are entered with the C calling convention. `SystemSymbols` asks the dynamic linker. The private frameworks live in the
shared cache of the system, so that their files do not exist on disk although they can be loaded (source: several public
projects that load them this way).
"""

from __future__ import annotations

import ctypes
import platform as python_platform
from typing import Protocol

from openane.errors import DeviceUnavailable
from openane.record_classes import dataclass

OBJC = "libobjc.A.dylib"
FOUNDATION = "Foundation"
CORE_FOUNDATION = "CoreFoundation"
IO_SURFACE = "IOSurface"
NEURAL_ENGINE = "AppleNeuralEngine"
ESPRESSO = "Espresso"
COMPILER = "ANECompiler"
SYSTEM = "libSystem.B.dylib"

PATHS = {
    OBJC: "/usr/lib/libobjc.A.dylib",
    FOUNDATION: "/System/Library/Frameworks/Foundation.framework/Foundation",
    CORE_FOUNDATION: "/System/Library/Frameworks/CoreFoundation.framework/CoreFoundation",
    IO_SURFACE: "/System/Library/Frameworks/IOSurface.framework/IOSurface",
    NEURAL_ENGINE: "/System/Library/PrivateFrameworks/AppleNeuralEngine.framework/AppleNeuralEngine",
    ESPRESSO: "/System/Library/PrivateFrameworks/Espresso.framework/Espresso",
    COMPILER: "/System/Library/PrivateFrameworks/ANECompiler.framework/ANECompiler",
    SYSTEM: "/usr/lib/libSystem.B.dylib",
}
"""File of every library, by the name this backend uses for it."""


@dataclass(frozen=True, slots=True)
class Platform:
    """The machine the symbols belong to."""

    machine: str
    """As `platform.machine()`: "arm64" on the Macs that have an engine; "x86_64" under Rosetta."""
    system: str
    """"macOS", or "stand-in"."""
    version: str
    """Version of the system, such as "15.6.1"."""
    build: str
    """Build of the system, such as "24G90"; empty when it is not known."""
    simulated: bool
    """Whether a stand-in answers instead of the system."""
    processor: str = ""
    """What the system calls its processor, such as "Apple M1 Pro"; empty when it is not known."""


class RuntimeSymbols(Protocol):
    """Addresses of C functions and data. Library names are the constants above (the keys of `PATHS`)."""

    @property
    def platform(self) -> Platform:
        """The machine behind the symbols."""
        ...

    def load(self, library: str) -> None:
        """Loads a library, so that its Objective-C classes are registered. DeviceUnavailable when it is not there."""
        ...

    def function(self, library: str, name: str) -> int:
        """Address of a C function. DeviceUnavailable when the library is missing, KeyError when the name is."""
        ...

    def data(self, library: str, name: str) -> int:
        """Address of a data symbol: of the variable that holds, for instance, the CFStringRef of `kIOSurfaceWidth`.
        Read the pointer stored there. Errors as `function`."""
        ...

    def close(self) -> None:
        """Gives back what the symbols hold; addresses are not valid any more. Idempotent."""
        ...


class SystemSymbols:
    """The libraries of the running system, through the dynamic linker."""

    def __init__(self) -> None:
        version, _, _ = python_platform.mac_ver()
        self._platform = Platform(python_platform.machine(), "macOS" if version else python_platform.system(), version,
                                  _system_text(b"kern.osversion"), False,
                                  _system_text(b"machdep.cpu.brand_string"))
        self._libraries: dict[str, ctypes.CDLL] = {}

    @property
    def platform(self) -> Platform:
        """The machine this Python runs on."""
        return self._platform

    def load(self, library: str) -> None:
        """Loads one of `PATHS`. DeviceUnavailable says which file the system would not load."""
        self._library(library)

    def function(self, library: str, name: str) -> int:
        """Address of an exported function, with or without the leading underscore that some tools print."""
        loaded = self._library(library)
        for spelling in (name, f"_{name}"):
            try:
                address = ctypes.cast(getattr(loaded, spelling), ctypes.c_void_p).value
            except AttributeError:
                continue
            if address:
                return address
        raise KeyError(f"{library} has no function {name}")

    def data(self, library: str, name: str) -> int:
        """Address of an exported variable."""
        try:
            return ctypes.addressof(ctypes.c_void_p.in_dll(self._library(library), name))
        except ValueError:
            raise KeyError(f"{library} has no variable {name}") from None

    def close(self) -> None:
        """Forgets the libraries; the system keeps them loaded until the process ends."""
        self._libraries.clear()

    def _library(self, name: str) -> ctypes.CDLL:
        if name not in self._libraries:
            path = PATHS[name]
            try:
                self._libraries[name] = ctypes.CDLL(path)
            except OSError as error:
                raise DeviceUnavailable(f"the system does not load {path}: {error}",
                                        "the engine's frameworks are part of macOS 12 and later on Apple silicon"
                                        ) from None
        return self._libraries[name]


def _system_text(name: bytes) -> str:
    """A text the kernel tells by name; empty where there is none."""
    query = getattr(ctypes.CDLL(None), "sysctlbyname", None)
    if query is None:
        return ""
    query.argtypes = (ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t)
    text = ctypes.create_string_buffer(256)
    size = ctypes.c_size_t(len(text))
    failed = query(name, text, ctypes.byref(size), None, 0)
    return "" if failed else text.value.decode("ascii", "replace")
