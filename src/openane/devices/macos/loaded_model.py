"""A loaded in-memory model: its surfaces, its request, and one run after the other."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from threading import Lock
from time import perf_counter

import numpy as np

from openane.devices.macos import interfaces as api
from openane.devices.macos.directories import ModelDirectory
from openane.devices.macos.foundation import ErrorFacts, Plain
from openane.devices.macos.framework import Framework
from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.live_layout import LivePort, live_ports
from openane.devices.macos.routes import RunFacts
from openane.devices.macos.surfaces import Surface
from openane.devices.packer import NUMPY, pack, unpack
from openane.errors import DeviceChanged, DeviceError, SubmitFailed

INFERENCE_STATUS = "status=0x1d"
INFERENCE_HINT = "; this status is known from surfaces of another size or order than the program's ports"
STATISTICS_MASK = 1
"""Any byte is taken; no source has seen counters come back."""
NANOSECONDS = 1e-9


class LoadedMemoryModel:
    """See `LoadedGraph`. Runs of one model exclude each other: they share its surfaces."""

    def __init__(self, framework: Framework, program: GraphProgram, model: int, directory: ModelDirectory,
                 forget: Callable[[LoadedMemoryModel], None]) -> None:
        """Takes over the retained `model` and its directory, before it is compiled; `forget` is told when it closes."""
        self.program = program
        self._framework, self._model, self._directory, self._forget = framework, model, directory, forget
        self._lock = Lock()
        self._inputs: list[tuple[LivePort, Surface]] = []
        self._outputs: list[tuple[LivePort, Surface]] = []
        self._request = 0
        self._loaded = self._tells_time = False
        self.closed = False

    def prepare(self) -> None:
        """Loads the compiled model and makes surfaces and the request. Call it inside a pool."""
        framework = self._framework
        framework.load(self.program, self._model)
        self._loaded = True
        if framework.objc.responds(self._model, api.STATISTICS_MASK):
            framework.objc.send(self._model, api.STATISTICS_MASK, STATISTICS_MASK)
        attributes = self._attributes()
        for key, ports, made in (("LiveInputList", self.program.inputs, self._inputs),
                                 ("LiveOutputList", self.program.outputs, self._outputs)):
            for port in live_ports(attributes, key, ports):
                made.append((port, framework.surfaces.flat(port.size)))
        request = framework.objc.send(
            framework.objc.cls(api.REQUEST), api.MAKE_REQUEST, *self._numbered(self._inputs),
            *self._numbered(self._outputs), None, None, framework.foundation.number(0))
        if not request:
            raise DeviceChanged(api.REQUEST, expected="a request of the model's surfaces", found="nil")
        self._request = framework.objc.retain(request)
        self._tells_time = framework.objc.responds(request, api.STATISTICS)

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> RunFacts:
        """See `LoadedGraph.run`."""
        with self._lock, self._framework.objc.pool():
            if self.closed:
                raise DeviceError("the model is closed")
            for live, surface in self._inputs:
                _write(live, surface, inputs[live.port.mil])
            start = perf_counter()
            failed = self._evaluate()
            seconds = perf_counter() - start
            if failed is not None:
                hint = INFERENCE_HINT if INFERENCE_STATUS in failed.text else ""
                raise SubmitFailed(f"a run of model {self.program.name!r}", domain=failed.domain, code=failed.code,
                                   text=failed.text + hint)
            for live, surface in self._outputs:
                _read(live, surface, outputs[live.port.mil])
            return RunFacts(seconds, self._where(), self._hardware_seconds())

    def close(self) -> None:
        """See `LoadedGraph.close`. What the system says about unloading cannot be helped and is not raised. In a forked
        process nothing is done: surfaces, model and directory are its parent's."""
        with self._lock:
            was_closed, self.closed = self.closed, True
        if was_closed or self._framework.objc.forked:
            return
        framework = self._framework
        try:
            with framework.objc.pool():
                if self._request:
                    framework.objc.release(self._request)
                if self._loaded:
                    framework.call(self._model, api.UNLOAD, framework.options.qos)
                framework.objc.release(self._model)
        finally:
            for _, surface in (*self._inputs, *self._outputs):
                surface.close()
            self._directory.close()
            self._forget(self)

    def _evaluate(self) -> ErrorFacts | None:
        """One run by the chosen path; None when it succeeded."""
        framework, objc = self._framework, self._framework.objc
        options, qos = framework.foundation.dictionary(), framework.options.qos
        if framework.options.path == 1:
            return framework.call(self._model, api.EVALUATE, qos, options, self._request)
        if framework.options.path == 3:
            program = objc.send(self._model, api.PROGRAM)
            if not program:
                raise DeviceChanged(f"the program of {api.MODEL}", expected="an object once it is loaded", found="nil")
            done = ctypes.c_bool(False)
            identifier = objc.send(self._model, api.IDENTIFIER)
            return framework.call(program, api.PROCESS, self._request, self._model, qos, 0, identifier, options,
                              ctypes.addressof(done))
        client = objc.send(objc.cls(api.CLIENT), api.CONNECTION)
        if not client:
            raise DeviceChanged(api.CLIENT, expected="a shared connection", found="nil")
        if framework.options.path == 2:
            return framework.call(client, api.EVALUATE_REAL_TIME, self._model, options, self._request)
        return framework.call(client, api.EVALUATE_DIRECT, self._model, options, self._request, qos)

    def _attributes(self) -> Plain:
        """What the model says about itself, or the model behind it; None when both are silent."""
        framework = self._framework
        for model in (self._model, framework.optional(self._model, api.UNDERLYING)):
            found = framework.foundation.python_value(framework.optional(model, api.ATTRIBUTES)) if model else None
            if found:
                return found
        return None

    def _numbered(self, ports: Sequence[tuple[LivePort, Surface]]) -> tuple[int, int]:
        """Arrays of the wrapped surfaces and of their numbers."""
        framework = self._framework
        wrapped = [framework.objc.send(framework.objc.cls(api.SURFACE_OBJECT), api.WRAP, surface.reference)
                   for _, surface in ports]
        if not all(wrapped):
            raise DeviceChanged(api.SURFACE_OBJECT, expected="an object around a surface", found="nil")
        return (framework.foundation.array(wrapped),
                framework.foundation.array([framework.foundation.number(number) for number in range(len(ports))]))

    def _hardware_seconds(self) -> float | None:
        """The engine's own time of the last run, where the system tells one."""
        statistics = self._framework.objc.send(self._request, api.STATISTICS) if self._tells_time else None
        if not statistics or not self._framework.objc.responds(statistics, api.HARDWARE_TIME):
            return None
        time = int(self._framework.objc.send(statistics, api.HARDWARE_TIME))
        return time * NANOSECONDS if time else None

    def _where(self) -> str:
        platform = self._framework.symbols.platform
        who = "the stand-in of the runtime" if platform.simulated else "the neural engine"
        return f"{who}, {api.PATHS[self._framework.options.path]}"


def _write(live: LivePort, surface: Surface, values: np.ndarray) -> None:
    """Puts a tensor into its surface; integers of 16 bits are moved as the bytes they are."""
    moved = values.view(NUMPY[live.layout.dtype])
    surface.use(lambda store: pack(moved, live.layout, store, live.port.name))


def _read(live: LivePort, surface: Surface, values: np.ndarray) -> None:
    moved = values.view(NUMPY[live.layout.dtype])
    moved[...] = surface.use(lambda store: unpack(live.layout, store, values.shape, live.port.name), read_only=True)
