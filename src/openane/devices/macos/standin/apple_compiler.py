"""The C interface of ANECompiler: what it is given is checked; what it would write is a file the faults name."""

from __future__ import annotations

import ctypes
import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openane.devices.macos.standin import foundation
from openane.devices.macos.standin.models import Refused, compile_text
from openane.devices.macos.standin.running import MODEL_PATH, disturb
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.standin.surfaces import POINTER, CFunction

INVOKE_OFFSET = 16
"""Where a block keeps its function."""
FAILED = 1
KNOWN_TARGETS = tuple(f"h{number}" for number in range(12, 19))


def _compile(runtime: Runtime, order: int, flags: int, block: int) -> int:
    wanted, chosen = (foundation.to_python(foundation.require(runtime.instance(each), "NSDictionary", "an argument"))
                      for each in (order, flags))
    disturb(runtime, "compile")
    reason = _refusal(runtime, wanted, chosen)
    status = FAILED if reason else 0
    details = foundation.dictionary(runtime, {"ErrorDescription": foundation.string(runtime, reason)} if reason else {})
    if not block:
        runtime.end("EXC_BAD_ACCESS: the block is NULL")
        return FAILED
    address = POINTER.from_address(block + INVOKE_OFFSET).value
    invoke = ctypes.CFUNCTYPE(None, POINTER, ctypes.c_uint32, POINTER)(address)
    invoke(block, status, details.handle)
    return status


def _refusal(runtime: Runtime, wanted: Mapping[str, Any], chosen: Mapping[str, Any]) -> str:
    """Why nothing is written; empty when the file was."""
    if runtime.faults.compile:
        return "ANECCompile() FAILED"
    if chosen.get("TargetArchitecture") not in KNOWN_TARGETS:
        return f"target {chosen.get('TargetArchitecture')} is not supported"
    try:
        (network,) = wanted["InputNetworks"]
        folder = Path(network["NetworkSourcePath"])
        files = {f"{MODEL_PATH}{each.relative_to(folder)}": each.read_bytes() for each in folder.rglob("*.bin")}
        compile_text((folder / network["NetworkSourceFileName"]).read_bytes(), files, runtime.faults.row_alignment)
        if not runtime.faults.hwx:
            return "the stand-in has no compiler; the fault hwx names a file it pretends to have made"
        made = Path(runtime.faults.hwx)
        if made.is_dir():
            text = (folder / network["NetworkSourceFileName"]).read_bytes()
            made /= f"{hashlib.sha256(text).hexdigest()[:16]}-{chosen['TargetArchitecture']}.hwx"
        (Path(wanted["OutputFilePath"]) / wanted["OutputFileName"]).write_bytes(made.read_bytes())
        if chosen.get("CompileANEProgramForDebugging") and chosen.get("DebugMask"):
            (Path(wanted["OutputFilePath"]) / "debug.txt").write_text(f"mask {chosen['DebugMask']:#x}\n")
    except (KeyError, ValueError, TypeError, OSError) as error:
        return f"the order is not understood: {error!r}"
    except Refused as refused:
        return refused.reason
    return ""


FUNCTIONS: Mapping[str, CFunction] = {"ANECCompile": CFunction(ctypes.c_int, [POINTER, POINTER, POINTER], _compile)}
