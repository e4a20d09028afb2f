"""Compiling, loading, evaluating and unloading in-memory models, with the rules of the framework and its errors."""

from __future__ import annotations

import ctypes
import hashlib
import os
import plistlib
import signal
import tempfile
import time
from collections.abc import Sequence
from dataclasses import field
from pathlib import Path, PurePosixPath
from typing import Any, Protocol

import numpy as np

from openane.devices.macos.standin import foundation
from openane.devices.macos.standin.definitions import Instance, ObjectiveCException
from openane.devices.macos.standin.models import Compiled, Refused, StandinPort, compile_text
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.macos.standin.surfaces import StandinSurface
from openane.errors import AneError
from openane.record_classes import dataclass

DOMAIN = "com.apple.appleneuralengine"
COMPILE_CODE, LOAD_CODE, EVALUATE_CODE = 1, 4, 8
"""Codes of the errors. That of compiling is read in disassembly; the others are inferred: sources quote texts only."""
PROGRAM_INFERENCE = 0x1D
MODEL_PATH = "@model_path/"
HIGHEST_QOS = 63
COMPILES = "compiled programs"


@dataclass(slots=True)
class Descriptor:
    """MIL text, and weight files by path. `plist` says that the text is a network description."""

    text: bytes
    weights: dict[str, bytes]
    plist: bool = False

    @property
    def identifier(self) -> str:
        """Three digests: of the text, of the weights, of the options."""
        weights = hashlib.sha256()
        for path, content in sorted(self.weights.items()):
            weights.update(f"{path}\0{len(content)}\0".encode() + content)
        return "_".join((hashlib.sha256(self.text).hexdigest(), weights.hexdigest(), hashlib.sha256(b"").hexdigest()))


@dataclass(slots=True)
class InMemoryModel:
    """An in-memory model. `state` is "made", "compiled" or "loaded"."""

    descriptor: Descriptor
    directory: Path
    state: str = "made"
    compiled: Compiled | None = None
    mask: int = 0
    program: Instance | None = None
    mapped: set[int] = field(default_factory=set)


class Runnable(Protocol):
    """What a loaded model executes."""

    @property
    def inputs(self) -> tuple[StandinPort, ...]:
        """Inputs in the order of their numbers."""
        ...

    @property
    def outputs(self) -> tuple[StandinPort, ...]:
        """Outputs in the order of their numbers."""
        ...

    def execute(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """Runs once on the bytes of surfaces."""
        ...


@dataclass(slots=True)
class FileModel:
    """A precompiled model. `state` is "made" or "loaded"."""

    path: Path
    key: str
    state: str = "made"
    compiled: Runnable | None = None
    mask: int = 0


@dataclass(slots=True)
class RequestObject:
    """Surfaces with the numbers of their ports, and objects that receive statistics."""

    inputs: list[StandinSurface]
    input_indices: list[int]
    outputs: list[StandinSurface]
    output_indices: list[int]
    statistics: list[Instance]
    hardware_time: int = 0


def temporary_directory(runtime: Runtime) -> str:
    """What NSTemporaryDirectory gives; it ends with a slash."""
    return f"{(runtime.faults.temporary or tempfile.gettempdir()).rstrip('/')}/"


def fail(runtime: Runtime, out: int, code: int, text: str) -> bool:
    """Gives an NSError through its out-parameter, which may be NULL, and NO."""
    if out:
        ctypes.c_size_t.from_address(out).value = foundation.error(runtime, DOMAIN, code, text).handle
    return False


def model_of(value: Any) -> InMemoryModel:
    """The model of an `_ANEInMemoryModel`."""
    return foundation.require(value, "_ANEInMemoryModel", "the model").value  # type: ignore[no-any-return]


def runnable_of(value: Any) -> InMemoryModel | FileModel:
    """The model of an `_ANEInMemoryModel` or an `_ANEModel`."""
    if isinstance(value, Instance) and isinstance(value.value, FileModel):
        return value.value
    return model_of(value)


def compile_model(runtime: Runtime, me: Instance, qos: int, options: Any, out: int) -> bool:
    """-compileWithQoS:options:error:"""
    model = model_of(me)
    if options is not None:
        foundation.require(options, "NSDictionary", "the options")
    disturb(runtime, "compile")
    try:
        _check_qos(qos)
        _spend(runtime)
        if runtime.faults.compile:
            raise Refused("InvalidMILProgram", front=runtime.faults.compile == "invalid")
        if model.descriptor.plist:
            raise Refused("the stand-in compiles MIL text, no network descriptions")
        model.compiled = compile_text(model.descriptor.text, _files(model), runtime.faults.row_alignment)
    except Refused as refused:
        return fail(runtime, out, COMPILE_CODE, f"_ANECompiler : {refused.reason}" if refused.front
                    else "_ANECompiler : ANECCompile() FAILED")
    (model.directory / "net.plist").write_bytes(plistlib.dumps({"Networks": ["main"]}))
    (model.directory / "data").write_bytes(model.descriptor.identifier.encode())
    model.state = "compiled"
    return True


def _check_qos(qos: int) -> None:
    if qos > HIGHEST_QOS:
        raise Refused(f"quality of service {qos}; it is 0 to {HIGHEST_QOS}")


def _spend(runtime: Runtime) -> None:
    """Counts a compilation; beyond the limit nothing compiles, and the error says nothing."""
    if runtime.compiles >= runtime.faults.budget:
        raise Refused("the limit on programs of a process")
    runtime.compiles += 1


def _files(model: InMemoryModel) -> dict[str, bytes]:
    """The weight files as they are on disk. Refused when the directory does not hold what the descriptor says."""
    try:
        text = (model.directory / "model.mil").read_bytes()
    except OSError:
        raise Refused("InvalidMILProgram: model.mil is not in the model's directory", front=True) from None
    if text != model.descriptor.text:
        raise Refused("InvalidMILProgram: model.mil is not the text of the descriptor", front=True)
    files = {}
    for key in model.descriptor.weights:
        relative = PurePosixPath(key.removeprefix(MODEL_PATH))
        if relative.is_absolute() or ".." in relative.parts:
            raise Refused(f"weight file {key!r} is outside the model's directory")
        try:
            files[key] = (model.directory / relative).read_bytes()
        except OSError:
            raise Refused(f"weight file {key!r} is not in the model's directory") from None
    return files


def load_model(runtime: Runtime, me: Instance, qos: int, options: Any, out: int) -> bool:
    """-loadWithQoS:options:error:"""
    model = model_of(me)
    if options is not None:
        foundation.require(options, "NSDictionary", "the options")
    disturb(runtime, "load")
    if runtime.faults.load:
        return fail(runtime, out, LOAD_CODE, "loadWithQoS: ANEProgramCreateInstance() Failed with status=0xf")
    if model.state == "made" or not (model.directory / "data").exists():
        return fail(runtime, out, LOAD_CODE, "loadWithQoS: the model was not compiled")
    if model.program is None:
        model.program = runtime.make("_ANEProgramForEvaluation", me.handle)
        me.owned.append(model.program)
    model.state = "loaded"
    return True


def unload_model(runtime: Runtime, me: Instance, out: int) -> bool:
    """-unloadWithQoS:error:"""
    model = model_of(me)
    disturb(runtime, "unload")
    if model.state != "loaded":
        return fail(runtime, out, LOAD_CODE, "unloadWithQoS: the model is not loaded")
    if model.mapped:
        runtime.problem("a model was unloaded while surfaces were mapped")
    if runtime.faults.live_budget:
        runtime.compiles -= 1
    model.state = "compiled"
    if model.program is not None:
        me.owned.remove(model.program)
        runtime.release(model.program)
        model.program = None
    return True


def evaluate_model(runtime: Runtime, model: Any, qos: int, given: Any, out: int) -> bool:
    """One run, on whatever of the four ways it was asked for."""
    state = runnable_of(model)
    request: RequestObject = foundation.require(given, "_ANERequest", "the request").value
    if state.state != "loaded" or state.compiled is None:
        return fail(runtime, out, EVALUATE_CODE, "evaluateWithQoS: the model is not loaded")
    if qos > HIGHEST_QOS:
        return fail(runtime, out, EVALUATE_CODE, f"evaluateWithQoS: quality of service {qos}")
    begin = time.perf_counter_ns()
    status, why = injected_failure(runtime), ""
    if not status:
        status, why = _run(runtime, state.compiled, request)
    if status:
        return fail(runtime, out, EVALUATE_CODE, f"ANEProgramProcessRequestDirect() Failed with status={status:#x} : "
                                                 f"Program Inference error{why and ': ' + why}")
    if state.mask:
        request.hardware_time = time.perf_counter_ns() - begin
        for each in request.statistics:
            foundation.require(each, "_ANEPerformanceStats", "an element of perfStats").value[0] = request.hardware_time
    return True


def injected_failure(runtime: Runtime) -> int:
    """What the faults do to a run: its status, or an exception, an end of the process, a delay."""
    disturb(runtime, "evaluate")
    runtime.runs += 1
    return runtime.faults.evaluate if runtime.runs > runtime.faults.after else 0


def disturb(runtime: Runtime, request: str) -> None:
    """Hangs, throws or ends the process where the faults say so."""
    faults = runtime.faults
    if request != faults.at:
        return
    runtime.disturbed += 1
    if runtime.disturbed <= faults.after:
        return
    if faults.exception:
        raise ObjectiveCException("NSInternalInconsistencyException", f"{request} was told to throw")
    if faults.crash:
        os.kill(os.getpid(), signal.SIGKILL)
    end = time.monotonic() + faults.hang
    while (left := end - time.monotonic()) > 0:
        time.sleep(min(left, 0.05))


def _run(runtime: Runtime, compiled: Runnable, request: RequestObject) -> tuple[int, str]:
    sides = (("input", compiled.inputs, request.inputs, request.input_indices),
             ("output", compiled.outputs, request.outputs, request.output_indices))
    bound = []
    for side, ports, surfaces, indices in sides:
        why = _unfit(side, ports, surfaces, indices) or (_unequal(side, surfaces) if runtime.faults.equal_sizes else "")
        if why:
            return PROGRAM_INFERENCE, why
        by_index = dict(zip(indices, surfaces, strict=True))
        bound.append([by_index[number] for number in range(len(ports))])
    for surface in bound[0]:
        surface.check(runtime, "while it was not locked")
    try:
        with np.errstate(all="ignore"):
            compiled.execute([surface.data for surface in bound[0]], [surface.data for surface in bound[1]])
    except AneError as error:
        return PROGRAM_INFERENCE, str(error)
    for surface in bound[1]:
        surface.settle()
    return 0, ""


def _unfit(side: str, ports: tuple[StandinPort, ...], surfaces: list[StandinSurface], indices: list[int]) -> str:
    """Why surfaces cannot be the ports'; empty when they can. The size is all that is compared."""
    if len(surfaces) != len(indices) or sorted(indices) != list(range(len(ports))):
        return f"{side}s {indices} with {len(surfaces)} surfaces for {len(ports)} ports"
    for index, surface in zip(indices, surfaces, strict=True):
        if surface.locks:
            return f"surface of {side} {index} is locked"
        if surface.size < ports[index].size:
            return f"surface of {side} {index} has {surface.size} of {ports[index].size} bytes"
    return ""


def _unequal(side: str, surfaces: list[StandinSurface]) -> str:
    sizes = sorted({surface.size for surface in surfaces})
    return f"{side}s have surfaces of {sizes} bytes" if len(sizes) > 1 else ""
