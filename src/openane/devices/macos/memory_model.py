"""The in-memory model route: MIL text to the system's compiler, surfaces in and out, through the private framework.

descriptor from text and weights -> model -> its directory filled -> compile -> load -> request on surfaces -> evaluate
as often as wanted -> unload -> directory removed. The daemon compiles, signs and loads; an ordinary process needs no
entitlement for this (four public projects; one says otherwise for another route). About 119 programs can be compiled by
a process; whether unloading gives any back is disputed, so compilations are counted.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from threading import RLock
from typing import Any

from openane.devices.closing import every
from openane.devices.macos import interfaces as api
from openane.devices.macos.directories import ModelDirectory, weight_file
from openane.devices.macos.foundation import ErrorFacts, Foundation
from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.loaded_model import LoadedMemoryModel
from openane.devices.macos.objc import ObjC
from openane.devices.macos.routes import COMPILATIONS, RouteOptions, compilations
from openane.devices.macos.surfaces import Surfaces
from openane.devices.macos.symbols import NEURAL_ENGINE, Symbols
from openane.errors import DeviceChanged, DeviceRejected


class MemoryRoute:
    """See `Route`."""

    def __init__(self, symbols: Symbols, options: RouteOptions) -> None:
        """Loads the framework and checks every class and method it will call."""
        self.options, self.symbols = options, symbols
        self.objc = ObjC(symbols)
        self.foundation = Foundation(symbols, self.objc)
        symbols.load(NEURAL_ENGINE)
        self.surfaces = Surfaces(symbols, self.objc, self.foundation)
        self.compilations = compilations(symbols)
        self._lock = RLock()
        self._models: list[LoadedMemoryModel] = []
        for table in (api.NEEDED, api.NEEDED_BY_PATH[options.path]):
            for name, needed in table.items():
                self.objc.check(name, *needed.factory, of_class=True)
                self.objc.check(name, *needed.methods)

    def load(self, program: GraphProgram) -> LoadedMemoryModel:
        """See `Route.load`."""
        with self._lock:
            self.compilations.take(COMPILATIONS)
            self._models = [model for model in self._models if not model.closed]
        with self.objc.pool():
            made = self._made(program)
        with self._lock:
            self._models.append(made)
        return made

    def close(self) -> None:
        """See `Route.close`."""
        with self._lock:
            models, self._models = self._models, []
        every(model.close for model in models)

    def call(self, receiver: int, selector: Any, *arguments: Any) -> ErrorFacts | None:
        """Sends a message whose last argument is an NSError**: None when it gives YES, else what the error says."""
        error = ctypes.c_void_p(0)
        if self.objc.send(receiver, selector, *arguments, ctypes.byref(error)):
            return None
        return self.foundation.error(error.value)

    def optional(self, receiver: int, selector: Any) -> int:
        """The object a method without arguments gives; 0 where the system has no such method."""
        return (self.objc.send(receiver, selector) or 0) if self.objc.responds(receiver, selector) else 0

    def _made(self, program: GraphProgram) -> LoadedMemoryModel:
        """A compiled and loaded model; nothing is left when that fails."""
        model = self._described(program)
        directory = self._directory(model, program)
        loaded = LoadedMemoryModel(self, program, self.objc.retain(model), directory)
        try:
            self._compile(program, model)
            loaded.prepare()
        except BaseException:
            loaded.close()
            raise
        return loaded

    def _described(self, program: GraphProgram) -> int:
        """An _ANEInMemoryModel of the program, autoreleased."""
        known, objc = self.foundation, self.objc
        weights = {}
        for path, content in program.weights.items():
            weight_file(path)
            weights[known.string(path)] = known.dictionary({
                known.string("offset"): known.number(0), known.string("data"): known.data(content)})
        descriptor = objc.send(objc.cls(api.DESCRIPTOR), api.FROM_MIL, known.data(program.text.encode()),
                               known.dictionary(weights), None)
        if not descriptor:
            raise DeviceRejected(f"model {program.name!r}", ["the system made no descriptor of its text and weights"])
        model = objc.send(objc.cls(api.MODEL), api.FROM_DESCRIPTOR, descriptor)
        if not model:
            raise DeviceRejected(f"model {program.name!r}", ["the system made no in-memory model of its descriptor"])
        return int(model)

    def _directory(self, model: int, program: GraphProgram) -> ModelDirectory:
        """The directory the model will be compiled in, filled."""
        known = self.foundation
        path = known.text(self.optional(model, api.LOCAL_PATH))
        if not path:
            identifier = known.text(self.objc.send(model, api.IDENTIFIER) or 0)
            if not identifier or "/" in identifier:
                raise DeviceChanged(f"the identifier of {api.MODEL}", expected="a name", found=repr(identifier))
            path = str(Path(known.temporary_directory()) / identifier)
        if not Path(path).is_absolute() or len(Path(path).parts) < 3:
            raise DeviceChanged(f"the directory of {api.MODEL}", expected="an absolute path", found=repr(path))
        self.options.noted(path)
        return ModelDirectory(Path(path), program.text, program.weights)

    def _compile(self, program: GraphProgram, model: int) -> None:
        failed = self.call(model, api.COMPILE, self.options.qos, self.foundation.dictionary())
        if failed is not None:
            raise DeviceRejected(f"model {program.name!r}", [_reason("the compiler", failed)])

    def load_compiled(self, program: GraphProgram, model: int) -> None:
        """Loads a compiled model. DeviceRejected with the system's text."""
        failed = self.call(model, api.LOAD, self.options.qos, self.foundation.dictionary())
        if failed is not None:
            raise DeviceRejected(f"model {program.name!r}", [_reason("the loader", failed)])

    def forget(self, model: LoadedMemoryModel) -> None:
        """Drops a closed model."""
        with self._lock:
            self._models = [known for known in self._models if known is not model]


def _reason(who: str, failed: ErrorFacts) -> str:
    text = failed.text or "no text was given"
    return f"{who} says: {text} ({failed.domain} {failed.code})"


