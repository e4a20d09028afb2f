"""The precompiled route: an engine program as a file, loaded by the client of the private framework without compiling.

file written -> _ANEModel of its URL -> loaded with options that say it is precompiled -> request on surfaces ->
evaluated as often as wanted -> unloaded. The files of the system's own models are loaded this way from ordinary
processes, copies of them too; of programs the system's compiler did not make it is reported that they do not behave
(two public projects). So a refusal is expected, and says so. Ports are numbered as the loaded model lists them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock, RLock
from time import perf_counter
from typing import Any
from uuid import uuid4

import numpy as np

from openane.devices.closing import every
from openane.devices.macos import interfaces as api
from openane.devices.macos.directories import MODEL_PATH, ModelDirectory
from openane.devices.macos.foundation import ErrorFacts, Foundation, Plain
from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.objc import ObjC, Selector
from openane.devices.macos.routes import RouteOptions, RunFacts
from openane.devices.macos.surfaces import LARGEST, Surface, Surfaces
from openane.devices.macos.symbols import NEURAL_ENGINE, RuntimeSymbols
from openane.errors import DeviceChanged, DeviceError, DeviceRejected, SubmitFailed, UnsupportedError
from openane.formats.hwx import write_hwx
from openane.program import Program, Role

MODEL, URL = "_ANEModel", "NSURL"
FILE_URL = Selector("fileURLWithPath:", "@", "@")
AT_URL = Selector("modelAtURL:key:", "@", "@", "@")
LOAD = Selector("loadModel:options:qos:error:", "B", "@", "@", "I", "^@")
UNLOAD = Selector("unloadModel:options:qos:error:", "B", "@", "@", "I", "^@")
EVALUATE = Selector("evaluateWithModel:options:request:qos:error:", "B", "@", "@", "@", "I", "^@")

MODEL_TYPE, PRECOMPILED, IDENTITY = "kANEFModelType", "kANEFModelPreCompiled", "kANEFModelIdentityStrKey"
FILE = "model.hwx"
HINT = "whether this system loads programs its own compiler did not make is not known; a model runs by its graph " \
       "with route=memory, and the program on the simulator or on Linux"


def file_program(program: Program) -> GraphProgram:
    """An engine program as what a host loads: no text, the file as its only weights, and ports of plain bytes.

    UnsupportedError for buffers that persist between runs, which a file cannot have.
    """
    kept = [buffer.name for buffer in program.buffers if buffer.role is Role.STATE]
    if kept:
        raise UnsupportedError(f"program {program.name!r}", f"buffer {kept[0]!r} persists between runs, and a "
                               "precompiled program has inputs and outputs only", remedy="use route=memory")
    inputs, outputs = (tuple(GraphPort(buffer.name, buffer.name, (buffer.size,), "uint8", "uint8") for buffer in side)
                       for side in (program.inputs, program.outputs))
    return GraphProgram(program.name, "", {f"{MODEL_PATH}{FILE}": write_hwx(program, "macos26")}, inputs, outputs, {})


class PrecompiledRoute:
    """See `Route`; it loads what `file_program` makes."""

    def __init__(self, symbols: RuntimeSymbols, options: RouteOptions) -> None:
        """Loads the framework and checks every class and method it will call."""
        self.options, self.symbols = options, symbols
        self.objc = ObjC(symbols)
        self.foundation = Foundation(symbols, self.objc)
        symbols.load(NEURAL_ENGINE)
        self.surfaces = Surfaces(symbols, self.objc, self.foundation)
        self._lock = RLock()
        self._programs: list[LoadedFile] = []
        for name, factory, methods in ((URL, (FILE_URL,), ()), (MODEL, (AT_URL,), ()),
                                       (api.CLIENT, (api.CONNECTION,), (LOAD, UNLOAD, EVALUATE)),
                                       (api.SURFACE_OBJECT, (api.WRAP,), ()), (api.REQUEST, (api.MAKE_REQUEST,), ())):
            self.objc.check(name, *factory, of_class=True)
            self.objc.check(name, *methods)

    def load(self, program: GraphProgram) -> LoadedFile:
        """See `Route.load`. DeviceRejected with the system's text."""
        if f"{MODEL_PATH}{FILE}" not in program.weights:
            raise DeviceError(f"{program.name!r} is no engine program; graphs are for route=memory")
        made = LoadedFile(self, program)
        with self._lock:
            self._programs = [*(known for known in self._programs if not known.closed), made]
        return made

    def close(self) -> None:
        """See `Route.close`."""
        with self._lock:
            programs, self._programs = self._programs, []
        every(program.close for program in programs)

    def ask(self, selector: Selector, *arguments: Any) -> ErrorFacts | None:
        """Asks the client something whose last argument is an NSError**: None when it gives YES. Call it in a pool."""
        objc, error = self.objc, ctypes.c_void_p(0)
        client = objc.send(objc.cls(api.CLIENT), api.CONNECTION)
        if not client:
            raise DeviceChanged(api.CLIENT, expected="a shared connection", found="nil")
        if objc.send(client, selector, *arguments, ctypes.byref(error)):
            return None
        return self.foundation.error(error.value)


class LoadedFile:
    """See `LoadedGraph`. Runs of one program exclude each other: they share its surfaces."""

    def __init__(self, route: PrecompiledRoute, program: GraphProgram) -> None:
        """Loads the file. Nothing is left when that fails."""
        self.program, self._route, self._lock = program, route, Lock()
        self._clock: Callable[[], float] = getattr(route.symbols, "clock", perf_counter)
        self._inputs: list[tuple[GraphPort, Surface]] = []
        self._outputs: list[tuple[GraphPort, Surface]] = []
        with route.objc.pool(), ExitStack() as held:
            self._request = self._prepare(held)
            self._held = held.pop_all()
        self.closed = False

    def run(self, inputs: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> RunFacts:
        """See `LoadedGraph.run`."""
        route = self._route
        with self._lock, route.objc.pool():
            if self.closed:
                raise DeviceError("the program is closed")
            for port, surface in self._inputs:
                surface.use(partial(_put, inputs[port.mil]))
            start = self._clock()
            failed = route.ask(EVALUATE, self._model, route.foundation.dictionary(), self._request, route.options.qos)
            seconds = self._clock() - start
            if failed is not None:
                raise SubmitFailed(f"a run of program {self.program.name!r}", domain=failed.domain, code=failed.code,
                                   text=failed.text)
            for port, surface in self._outputs:
                surface.use(partial(_take, outputs[port.mil]), read_only=True)
            who = "the stand-in of the runtime" if route.symbols.platform.simulated else "the neural engine"
            return RunFacts(seconds, f"{who}, as a precompiled program")

    def close(self) -> None:
        """See `LoadedGraph.close`."""
        with self._lock:
            was_closed, self.closed = self.closed, True
        if not was_closed:
            with self._route.objc.pool():
                self._held.close()

    def _prepare(self, held: ExitStack) -> int:
        """The request of the loaded model. `held` gives everything back in reverse."""
        route, known, objc = self._route, self._route.foundation, self._route.objc
        folder = Path(known.temporary_directory()) / f"openane-hwx-{uuid4().hex}"
        route.options.noted(str(folder))
        held.callback(ModelDirectory(folder, self.program.text, self.program.weights).close)
        url = objc.send(objc.cls(URL), FILE_URL, known.string(str(folder / FILE)))
        model = objc.send(objc.cls(MODEL), AT_URL, url, known.string(folder.name)) if url else None
        if not model:
            raise DeviceRejected(f"program {self.program.name!r}", ["the system made no model of its file"])
        self._model = objc.retain(model)
        held.callback(objc.release, self._model)
        options = known.dictionary({known.string(MODEL_TYPE): known.string(PRECOMPILED),
                                    known.string(IDENTITY): known.string(folder.name)})
        failed = route.ask(LOAD, self._model, options, route.options.qos)
        if failed is not None:
            raise DeviceRejected(f"program {self.program.name!r}", [
                f"the loader says: {failed.text or 'no text was given'} ({failed.domain} {failed.code})\nhint: {HINT}"])
        held.callback(self._unload)
        attributes = known.python_value(objc.send(self._model, api.ATTRIBUTES) or 0) \
            if objc.responds(self._model, api.ATTRIBUTES) else None
        for key, ports, made in (("LiveInputList", self.program.inputs, self._inputs),
                                 ("LiveOutputList", self.program.outputs, self._outputs)):
            for port, size in listed(attributes, key, ports):
                surface = route.surfaces.flat(size)
                held.callback(surface.close)
                made.append((port, surface))
        request = objc.send(objc.cls(api.REQUEST), api.MAKE_REQUEST, *self._numbered(self._inputs),
                            *self._numbered(self._outputs), None, None, known.number(0))
        if not request:
            raise DeviceChanged(api.REQUEST, expected="a request of the program's surfaces", found="nil")
        held.callback(objc.release, objc.retain(request))
        return int(request)

    def _unload(self) -> None:
        """Unloads. What the system says about it cannot be helped and is not raised."""
        self._route.ask(UNLOAD, self._model, self._route.foundation.dictionary(), self._route.options.qos)

    def _numbered(self, ports: Sequence[tuple[GraphPort, Surface]]) -> tuple[int, int]:
        objc, known = self._route.objc, self._route.foundation
        wrapped = [objc.send(objc.cls(api.SURFACE_OBJECT), api.WRAP, surface.reference) for _, surface in ports]
        if not all(wrapped):
            raise DeviceChanged(api.SURFACE_OBJECT, expected="an object around a surface", found="nil")
        return known.array(wrapped), known.array([known.number(number) for number in range(len(ports))])


def _put(values: np.ndarray, store: np.ndarray) -> None:
    store[:values.size] = values


def _take(values: np.ndarray, store: np.ndarray) -> None:
    values[:] = store[:values.size]


def _entries(attributes: Plain, key: str) -> Any:
    """What the model says of its first procedure, None where it says nothing."""
    procedures = attributes.get("NetworkStatusList") if isinstance(attributes, dict) else None
    first = procedures[0] if isinstance(procedures, list) and procedures else None
    return first.get(key) if isinstance(first, dict) else None


def listed(attributes: Plain, key: str, ports: Sequence[GraphPort]) -> list[tuple[GraphPort, int]]:
    """The ports in the order of the model's list, each with the bytes of its surface; in the file's order where the
    model lists nothing. DeviceChanged when it lists other ports or a size nobody would allocate."""
    entries = _entries(attributes, key)
    if not isinstance(entries, list):
        return [(port, port.shape[0]) for port in ports]
    by_name = {port.mil.partition("@")[0]: port for port in ports}
    names = [str(entry.get("Symbol")).partition("@")[0] if isinstance(entry, dict) else "" for entry in entries]
    if sorted(names) != sorted(by_name):
        raise DeviceChanged(key, expected=", ".join(by_name), found=", ".join(names))
    sizes = [entry.get("Batches", 0) * entry.get("BatchStride", 0) for entry in entries]
    if not all(isinstance(size, int) and 0 <= size <= LARGEST for size in sizes):
        raise DeviceChanged(key, expected=f"surfaces of up to {LARGEST} bytes", found=sizes)
    return [(by_name[name], max(by_name[name].shape[0], size)) for name, size in zip(names, sizes, strict=True)]
