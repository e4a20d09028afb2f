"""A real Objective-C runtime and Foundation (GCC's and GNUstep's) behind the symbols the macOS backend uses.

The engine's classes are `gnustep/engine.m`, compiled here with gobjc; models are computed by the stand-in's compiler
through callbacks. Once loaded, the libraries stay in a process for good, and an exception ends it: use it in a process
of its own. `python gnustep_runtime.py ENGINE ORDER...` is one, for the tests.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
from support.standin import weighted_sum

from openane.devices.macos.routes import LoadedGraph, RouteOptions, open_route
from openane.devices.macos.standin.models import TYPES, Compiled, Refused, compile_text
from openane.devices.macos.symbols import ESPRESSO, FOUNDATION, OBJC, PATHS, Platform
from openane.errors import AneError, DeviceUnavailable

SOURCE = Path(__file__).parent / "gnustep" / "engine.m"
SPELLED = {"object_getClass": "engine_object_getClass"}
"""Functions that GCC's headers define inline, and the name they have in the engine."""


class PortRecord(ctypes.Structure):
    """`Port` of engine.m."""

    _fields_ = (("name", ctypes.c_char * 256), ("type", ctypes.c_char * 16), ("extents", ctypes.c_int64 * 5),
                ("strides", ctypes.c_int64 * 4))


COMPILE = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64))
DESCRIBE = ctypes.CFUNCTYPE(None, ctypes.c_int64, ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(PortRecord))
RUN = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_void_p))


def build(folder: Path) -> Path:
    """The engine as a shared library in `folder`."""
    words = [subprocess.run(["gnustep-config", word], capture_output=True, text=True, check=True).stdout.split()
             for word in ("--objc-flags", "--base-libs")]
    library = folder / "engine.so"
    subprocess.run(["gcc", "-std=gnu11", *words[0], "-shared", str(SOURCE), "-o", str(library), *words[1]],
                   check=True, capture_output=True, cwd=folder)
    return library


class GnustepSymbols:
    """Implements `Symbols` over the loaded libraries."""

    def __init__(self, library: Path, budget: int = 119) -> None:
        """Loads the engine; it brings the runtime and Foundation with it."""
        self.engine = ctypes.CDLL(str(library))
        self._models: list[Compiled] = []
        self._callbacks = (COMPILE(self._compile), DESCRIBE(self._describe), RUN(self._run))
        self.engine.engine_set(*self._callbacks, ctypes.c_int64(budget))
        self.engine.engine_live.restype = ctypes.c_int64

    @property
    def platform(self) -> Platform:
        """Something that is no Mac."""
        return Platform("arm64", "GNUstep", "15.0", "", simulated=True)

    def load(self, library: str) -> None:
        """Everything but Espresso is loaded."""
        if library == ESPRESSO:
            raise DeviceUnavailable(f"there is no {PATHS[library]}")

    def function(self, library: str, name: str) -> int:
        """See `Symbols.function`."""
        self.load(library)
        name = SPELLED.get(name, name) if library in (OBJC, FOUNDATION) else name
        try:
            return ctypes.cast(getattr(self.engine, name), ctypes.c_void_p).value or 0
        except AttributeError:
            raise KeyError(f"{library} has no function {name}") from None

    def data(self, library: str, name: str) -> int:
        """See `Symbols.data`."""
        try:
            return ctypes.addressof(ctypes.c_void_p.in_dll(self.engine, name))
        except ValueError:
            raise KeyError(f"{library} has no variable {name}") from None

    def close(self) -> None:
        """Nothing can be unloaded."""

    def live(self) -> int:
        """Objects of the engine's classes that are not freed."""
        return int(self.engine.engine_live())

    def _compile(self, directory: bytes, counts: ctypes.Array[ctypes.c_int64]) -> int:
        folder = Path(directory.decode())
        files = {f"@model_path/{each.relative_to(folder)}": each.read_bytes() for each in folder.rglob("*.bin")}
        try:
            compiled = compile_text((folder / "model.mil").read_bytes(), files, 64)
        except Refused:
            return -1
        counts[0], counts[1] = len(compiled.inputs), len(compiled.outputs)
        self._models.append(compiled)
        return len(self._models) - 1

    def _describe(self, model: int, side: int, index: int, record: ctypes._Pointer[PortRecord]) -> None:
        compiled = self._models[model]
        port = (compiled.outputs if side else compiled.inputs)[index]
        batch, plane, deep, row, _ = port.strides
        found = record.contents
        found.name, found.type = port.name.encode(), TYPES[port.dtype].encode()
        found.extents[:], found.strides[:] = port.extents, (batch, plane, deep, row)

    def _run(self, model: int, inputs: ctypes.Array[ctypes.c_void_p], outputs: ctypes.Array[ctypes.c_void_p]) -> int:
        compiled = self._models[model]
        views = [[port.view(np.ctypeslib.as_array((ctypes.c_uint8 * port.size).from_address(place or 0)))
                  for port, place in zip(ports, places, strict=False)]
                 for ports, places in ((compiled.inputs, inputs), (compiled.outputs, outputs))]
        for view, result in zip(views[1], compiled.run(views[0]), strict=True):
            view[...] = result
        return 0


def attempt(library: Path, order: dict[str, int]) -> dict[str, object]:
    """Loads, runs and closes models: how many of the last one's runs were right, or the error."""
    symbols = GnustepSymbols(library, order.get("budget", 119))
    program = weighted_sum()
    if order.get("broken"):
        program = replace(program, text=program.text.replace("mul(", "no_such_operation("))
    outcome: dict[str, object] = {}
    try:
        route = open_route(symbols, RouteOptions(path=order.get("path", 1)))
        for _ in range(order.get("models", 1)):
            loaded = route.load(program)
            outcome["right"] = sum(right_run(loaded, seed) for seed in range(order.get("runs", 3)))
            loaded.close()
        route.close()
    except AneError as error:
        outcome |= {"error": type(error).__name__, "text": str(error)}
    return {**outcome, "live": symbols.live()}


def right_run(loaded: LoadedGraph, seed: int) -> bool:
    """Runs `weighted_sum` once: whether the output is right."""
    a, b, c = np.random.default_rng(seed).integers(-8, 8, (3, 3, 8)).astype(np.float16)
    found = np.zeros((3, 8), np.float16)
    loaded.run({"a": a, "b": b, "c": c}, {"y": found})
    return bool(np.array_equal(found, a * b - c + np.arange(8, dtype=np.float16)))


if __name__ == "__main__":
    for text in sys.argv[2:]:
        sys.stdout.write(f"{json.dumps(attempt(Path(sys.argv[1]), json.loads(text)))}\n")
