"""Apple's own compiler for the engine, on macOS: a graph in, an HWX file for any generation out, to compare with ours.

`ANECCompile` of ANECompiler.framework takes two dictionaries (what to compile and where to, and flags) and a block it
reports to, and gives 0 for success (source: two public projects that call it with network descriptions; that MIL text
is taken the same way is read in the system's own service). It needs no engine and no entitlement. What it does with a
program it does not like is to give a number, or to end the process; so it has a process of its own.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from openane.chips import DEFAULT_TARGET
from openane.devices.macos.directories import TEXT_FILE, weight_file
from openane.devices.macos.foundation import Foundation
from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.objc import ObjC
from openane.devices.macos.routes import open_symbols
from openane.devices.macos.symbols import COMPILER, SYSTEM, RuntimeSymbols
from openane.errors import AneError, DeviceChanged, DeviceError, DeviceHung, DeviceRejected, DeviceUnavailable

TARGETS = tuple(f"h{number}" for number in range(11, 19))
"""Generations. h11 is refused by current systems (one public project)."""
EVERYTHING = 2**31 - 1
"""Debug mask of every intermediate file the compiler can write."""
OUTPUT, ORDER, ANSWER = "model.hwx", "order.json", "answer.json"
GLOBAL_BLOCK = 1 << 28
"""Flag of a block that is never copied."""

_CHILD = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); " \
         "from openane.devices.macos.apple_compiler import serve; serve(sys.argv[2])"
_INVOKE = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p)


class _Descriptor(ctypes.Structure):
    _fields_ = (("reserved", ctypes.c_ulong), ("size", ctypes.c_ulong))


class _Block(ctypes.Structure):
    """An Objective-C block without captured variables. Source: the published block ABI."""

    _fields_ = (("isa", ctypes.c_void_p), ("flags", ctypes.c_int), ("reserved", ctypes.c_int), ("invoke", _INVOKE),
                ("descriptor", ctypes.POINTER(_Descriptor)))


def compile_by_apple(program: GraphProgram, target: str = DEFAULT_TARGET, debug_mask: int | None = None, *,
                     runtime: str = "system", inject: str = "", timeout: float = 300.0,
                     keep: Path | None = None) -> bytes:
    """The HWX file Apple's compiler makes of a graph program for generation `target`.

    `debug_mask` has it write intermediate files, which are moved to folder `keep`. `runtime` "simulated" asks the
    stand-in, with the failures `inject`. DeviceUnavailable without the framework, DeviceRejected with the compiler's
    status, DeviceHung after `timeout` seconds.
    """
    if target not in TARGETS:
        raise DeviceError(f"Apple's compiler has no target {target!r}; it has {', '.join(TARGETS)}")
    with tempfile.TemporaryDirectory(prefix="openane-apple-") as place:
        folder = Path(place)
        for name, content in {TEXT_FILE: program.text.encode(), **{weight_file(path): data for path, data in
                                                                   program.weights.items()}}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        (folder / ORDER).write_text(json.dumps({"runtime": runtime, "inject": inject, "target": target,
                                                "debug_mask": debug_mask}))
        known = {path.name for path in folder.iterdir()} | {OUTPUT, ANSWER}
        _ask(program.name, folder, timeout)
        if keep is not None:
            for path in folder.iterdir():
                if path.name not in known and path.is_file():
                    (keep / path.name).write_bytes(path.read_bytes())
        return (folder / OUTPUT).read_bytes()


def _ask(name: str, folder: Path, timeout: float) -> None:
    """Has a process of its own compile what is in the folder."""
    request = f"compiling {name!r} by Apple's compiler"
    words = [sys.executable, "-c", _CHILD, json.dumps(sys.path), str(folder)]
    try:
        done = subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise DeviceHung(request, timeout) from None
    answer: dict[str, str] = {}
    if (folder / ANSWER).exists():
        answer = json.loads((folder / ANSWER).read_text())
    if answer.get("kind") == "DeviceUnavailable":
        raise DeviceUnavailable(answer["text"], "Apple's compiler is a part of macOS 12 and later on Apple silicon")
    if answer.get("kind") == "changed":
        raise DeviceChanged("ANECCompile", expected="the known interface", found=answer["text"])
    if answer.get("kind") != "done" or not (folder / OUTPUT).exists():
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise DeviceRejected(request, [answer.get("text") or " ".join(last)
                                       or f"its process ended with status {done.returncode} and no output"])


def serve(place: str) -> None:
    """Compiles what is in a folder and writes the answer there; what the process does that asked for it."""
    folder = Path(place)
    order = json.loads((folder / ORDER).read_text())
    try:
        symbols = open_symbols(order["runtime"], order["inject"])
        status, said = compile_folder(symbols, folder, order["target"], order["debug_mask"])
        symbols.close()
        answer = {"kind": "refused" if status else "done", "text": f"status {status:#x}{said and ': ' + said}"}
    except DeviceUnavailable as error:
        answer = {"kind": "DeviceUnavailable", "text": error.missing}
    except DeviceChanged as error:
        answer = {"kind": "changed", "text": str(error.found)}
    except AneError as error:
        answer = {"kind": type(error).__name__, "text": str(error)}
    (folder / ANSWER).write_text(json.dumps(answer))


def compile_folder(symbols: RuntimeSymbols, folder: Path, target: str, debug_mask: int | None) -> tuple[int, str]:
    """Calls ANECCompile: its status, and what it reported to the block. It writes `model.hwx` into the folder."""
    objc = ObjC(symbols)
    known = Foundation(symbols, objc)
    symbols.load(COMPILER)
    function = objc.function(COMPILER, "ANECCompile", ctypes.c_int, *[ctypes.c_void_p] * 3)
    said: list[str] = []

    def report(_block: int | None, status: int, details: int | None) -> None:
        found = known.python_value(details or 0)
        if status:
            said.append(json.dumps(found, default=str) if found else f"reported {status:#x}")

    block = _Block(symbols.data(SYSTEM, "_NSConcreteGlobalBlock"), GLOBAL_BLOCK, 0, _INVOKE(report),
                   ctypes.pointer(_Descriptor(0, ctypes.sizeof(_Block))))

    def made(value: Any) -> int:
        if isinstance(value, dict):
            return known.dictionary({known.string(key): made(each) for key, each in value.items()})
        if isinstance(value, list):
            return known.array([made(each) for each in value])
        return known.string(value) if isinstance(value, str) else known.number(int(value))

    where = f"{folder}{os.sep}"
    flags: dict[str, Any] = {"TargetArchitecture": target}
    if debug_mask is not None:
        flags |= {"CompileANEProgramForDebugging": 1, "DebugMask": debug_mask}
    with objc.pool():
        status = int(function(made({
            "InputNetworks": [{"NetworkSourceFileName": TEXT_FILE, "NetworkSourcePath": where}],
            "OutputFilePath": where, "OutputFileName": OUTPUT}), made(flags), ctypes.byref(block)))
    return status, "; ".join(said)
