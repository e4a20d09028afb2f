"""Precompiled programs: `_ANEModel` with a file, loaded by the client without compiling; executed by the simulator.

This is the one part of the stand-in that runs engine programs, because here the program is what the user gives. What
the options must say and that ports are numbered as the model's attributes list them is what public projects do.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from openane.devices.macos.standin.definitions import Class, Instance, Method
from openane.devices.macos.standin.foundation import require, to_python
from openane.devices.macos.standin.models import StandinPort
from openane.devices.macos.standin.running import LOAD_CODE, FileModel, disturb, fail
from openane.devices.macos.standin.runtime import Runtime
from openane.devices.other_engine import OtherEngine
from openane.engine import DType
from openane.errors import AneError, SimulationError
from openane.formats.hwx import read_hwx
from openane.program import Buffer, Role
from openane.simulator import load
from openane.simulator.variation import STANDARD

MODEL_TYPE, PRECOMPILED, IDENTITY = "kANEFModelType", "kANEFModelPreCompiled", "kANEFModelIdentityStrKey"
_ELEMENTS = {DType.FLOAT16: "fp16", DType.INT8: "int8", DType.UINT8: "uint8"}


FOREVER = 3600.0
"""Seconds of a run that does not end."""


class Loaded:
    """A program in the simulator. Its ports are numbered in the file's order."""

    def __init__(self, content: bytes, other: OtherEngine | None = None) -> None:
        """AneError when the file cannot be read or run, or an engine that is not as believed refuses it."""
        program = read_hwx(content)
        self._other, variation = other, other.variation if other is not None else STANDARD
        why = variation.refusal({"ports": len(program.buffers), "tasks": len(program.tasks),
                                 "text": len(program.text()), "constants": len(program.constants)})
        if why:
            raise SimulationError(why)
        self._program = load(program, variation=variation)
        self._names = [[buffer.name for buffer in program.buffers if buffer.role is role]
                       for role in (Role.INPUT, Role.OUTPUT)]
        self.inputs, self.outputs = (tuple(_port(buffer) for buffer in program.buffers if buffer.role is role)
                                     for role in (Role.INPUT, Role.OUTPUT))

    def execute(self, inputs: Sequence[np.ndarray], outputs: Sequence[np.ndarray]) -> None:
        """See `Runnable`."""
        buffers = self._program.buffers
        for name, memory in zip(self._names[0], inputs, strict=True):
            _copy(memory, buffers[name])
        other = self._other
        if other is not None and any(map(other.variation.hangs, self._program.operations)):
            time.sleep(FOREVER)
        if other is not None and other.fails():
            raise SimulationError("the run failed")
        self._program.run()
        if other is not None:
            other.ran(self._program.operations)
        for name, memory in zip(self._names[1], outputs, strict=True):
            _copy(buffers[name], memory)


def _copy(source: np.ndarray, target: np.ndarray) -> None:
    size = min(source.size, target.size)
    target[:size] = source[:size]


def _port(buffer: Buffer) -> StandinPort:
    """A buffer as a port; without a described tensor it is bytes."""
    layout = buffer.layout
    if layout is None:
        return StandinPort(buffer.name, (buffer.size,), "uint8", (1, 1, 1, 1, buffer.size),
                           (buffer.size, buffer.size, buffer.size, buffer.size, 1))
    n, c, d, h, w = layout.shape
    batch, plane, deep, row, element = layout.strides
    return StandinPort(buffer.name, (n, c, d, h, w), _ELEMENTS[layout.dtype], (n, c, d, h, w),
                       (batch or buffer.size // n, plane, deep, row, element))


def model_at(runtime: Runtime, kind: Class, url: Any, key: Any) -> Instance | None:
    """+modelAtURL:key:"""
    path = require(url, "NSURL", "the URL").value
    return runtime.made(kind.name, FileModel(Path(path), require(key, "NSString", "the key").value), [url, key])


def _load(runtime: Runtime, _: Instance, model: Any, options: Any, qos: int, out: int) -> bool:
    given: FileModel = require(model, "_ANEModel", "the model").value
    words = to_python(require(options, "NSDictionary", "the options"))
    disturb(runtime, "load")
    if words.get(MODEL_TYPE) != PRECOMPILED or not isinstance(words.get(IDENTITY), str):
        return fail(runtime, out, LOAD_CODE, "loadModel: the options do not say that the model is precompiled")
    if runtime.faults.load or runtime.faults.refuse_files:
        return fail(runtime, out, LOAD_CODE, "loadModel: ANEProgramCreateInstance() Failed with status=0xf")
    try:
        given.compiled = Loaded(given.path.read_bytes(), runtime.other)
    except (OSError, AneError) as error:
        return fail(runtime, out, LOAD_CODE, f"loadModel: {error}")
    given.state = "loaded"
    return True


def _unload(runtime: Runtime, _: Instance, model: Any, options: Any, qos: int, out: int) -> bool:
    given: FileModel = require(model, "_ANEModel", "the model").value
    disturb(runtime, "unload")
    if given.state != "loaded":
        return fail(runtime, out, LOAD_CODE, "unloadModel: the model is not loaded")
    given.state, given.compiled = "made", None
    return True


CLIENT_METHODS: Mapping[str, Method] = {
    "loadModel:options:qos:error:": Method("B@:@@I^@", _load),
    "unloadModel:options:qos:error:": Method("B@:@@I^@", _unload),
}
"""What the client does with such models besides evaluating them."""
