"""The stand-in's libraries: every C function an address that is entered as on the real system.

A function is a callback made by ctypes, so that a caller goes through real C frames: prototypes, narrow arguments,
arguments on the stack, out-parameters.
"""

from __future__ import annotations

import ctypes
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from time import perf_counter
from typing import Any

from openane.devices.macos.standin import apple_compiler, e5, foundation, functions, neural, surfaces
from openane.devices.macos.standin.definitions import ClassDefinition, ObjectiveCException
from openane.devices.macos.standin.faults import Faults, parse_faults
from openane.devices.macos.standin.runtime import Runtime, Terminate, end_process
from openane.devices.macos.standin.surfaces import CFunction
from openane.devices.macos.symbols import (
    COMPILER,
    CORE_FOUNDATION,
    ESPRESSO,
    FOUNDATION,
    IO_SURFACE,
    NEURAL_ENGINE,
    OBJC,
    PATHS,
    SYSTEM,
    Platform,
)
from openane.errors import DeviceError, DeviceUnavailable

_FUNCTIONS: Mapping[str, Mapping[str, CFunction]] = {
    OBJC: functions.OBJC_FUNCTIONS, FOUNDATION: functions.FOUNDATION_FUNCTIONS,
    CORE_FOUNDATION: surfaces.CORE_FUNCTIONS, IO_SURFACE: surfaces.SURFACE_FUNCTIONS,
    NEURAL_ENGINE: {}, ESPRESSO: e5.FUNCTIONS, COMPILER: apple_compiler.FUNCTIONS, SYSTEM: {},
}
BLOCK_CLASS = "_NSConcreteGlobalBlock"
_CLASSES: tuple[ClassDefinition, ...] = (*foundation.CLASSES, *surfaces.CLASSES, *neural.CLASSES)


class SimulatedSymbols:
    """Implements `Symbols`. `runtime` is for tests: its problems, its objects."""

    def __init__(self, faults: Faults | str = "", terminate: Terminate = end_process) -> None:
        """`faults` as `parse_faults` reads them, DeviceError when it cannot. `terminate` is called with the reason
        instead of ending the process."""
        self.faults = parse_faults(faults) if isinstance(faults, str) else faults
        self.runtime = Runtime(self.faults, terminate)
        self.clock = self.runtime.other.clock if self.runtime.other is not None else perf_counter
        self._loaded: set[str] = set()
        self._callbacks: dict[tuple[str, str], Any] = {}
        self._variables: dict[tuple[str, str], ctypes.c_size_t] = {}
        self._open = True

    @property
    def platform(self) -> Platform:
        """A Mac that does not exist."""
        faults = self.faults
        return Platform(faults.machine, "stand-in", faults.version, "", simulated=True,
                        processor=f"Apple {faults.chip.upper()}" if faults.engine else "")

    def load(self, library: str) -> None:
        """See `Symbols.load`: registers the library's classes."""
        if not self._open:
            raise DeviceError("the stand-in is closed")
        if library not in _FUNCTIONS or library in self.faults.missing_library:
            raise DeviceUnavailable(f"the stand-in does not load {PATHS.get(library, library)}",
                                    "the fault missing-library takes it away")
        if library in self._loaded:
            return
        self._loaded.add(library)
        if library in (NEURAL_ENGINE, IO_SURFACE, CORE_FOUNDATION, ESPRESSO, COMPILER):
            self.load(FOUNDATION)
        elif library == FOUNDATION:
            self.load(OBJC)
        self.runtime.register([each for each in _CLASSES if each.library == library])

    def function(self, library: str, name: str) -> int:
        """See `Symbols.function`."""
        self.load(library)
        name = name.removeprefix("_")
        if name not in _FUNCTIONS[library] or name in self.faults.missing_function:
            raise KeyError(f"{library} has no function {name}")
        if (library, name) not in self._callbacks:
            self._callbacks[library, name] = self._callback(name, _FUNCTIONS[library][name])
        return ctypes.cast(self._callbacks[library, name], ctypes.c_void_p).value or 0

    def data(self, library: str, name: str) -> int:
        """See `Symbols.data`."""
        self.load(library)
        if (library, name) not in self._variables:
            self._variables[library, name] = ctypes.c_size_t(self._content(library, name))
        return ctypes.addressof(self._variables[library, name])

    def problems(self) -> tuple[str, ...]:
        """What was done wrong so far although the system would have let it pass, and what is not released: one sentence
        each. Asked when everything should have been given back."""
        e5_leaks = e5.leaks(self.runtime)
        return (*self.runtime.problems, *self.runtime.leaks(), *e5_leaks)

    def close(self) -> None:
        """See `Symbols.close`. Appends the problems to the file the faults name. Idempotent."""
        if not self._open:
            return
        self._open = False
        if self.faults.report:
            with Path(self.faults.report).open("a") as file:
                file.writelines(f"{line}\n" for line in self.problems())

    def _content(self, library: str, name: str) -> int:
        """What a variable holds."""
        text = surfaces.CONSTANT_STRINGS.get(library, {}).get(name)
        if text is not None:
            constant = self.runtime.make(foundation.STRING, text)
            self.runtime.shared[name] = constant
            return constant.handle
        if name in {CORE_FOUNDATION: surfaces.CORE_VARIABLES, SYSTEM: (BLOCK_CLASS,)}.get(library, ()):
            return 0
        raise KeyError(f"{library} has no variable {name}")

    def _callback(self, name: str, function: CFunction) -> Any:
        runtime, call = self.runtime, function.call
        nil = name in self.faults.nil

        def enter(*arguments: Any) -> Any:
            try:
                return 0 if nil else call(runtime, *arguments)
            except ObjectiveCException as thrown:
                return runtime.end(f"terminating due to uncaught exception: {thrown}")
            except Exception:
                return runtime.end(f"the stand-in itself failed at {name}:\n{traceback.format_exc()}")

        entered: Callable[..., Any] = enter
        return ctypes.CFUNCTYPE(function.result, *function.arguments)(entered)


def open_symbols(inject: str = "") -> SimulatedSymbols:
    """The stand-in, with the faults a text names. DeviceError lists those it knows."""
    return SimulatedSymbols(inject)
