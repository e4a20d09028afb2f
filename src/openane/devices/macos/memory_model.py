"""The in-memory model route: MIL text to the system's compiler, surfaces in and out, through the private framework.

descriptor from text and weights -> model -> its directory filled -> compile -> load -> request on surfaces -> evaluate
as often as wanted -> unload -> directory removed. The daemon compiles, signs and loads; an ordinary process needs no
entitlement for this (four public projects; one says otherwise for another route). About 119 programs can be compiled by
a process; whether unloading gives any back is disputed, so compilations are counted.
"""

from __future__ import annotations

from pathlib import Path
from threading import RLock

from openane.devices.closing import every
from openane.devices.macos import interfaces as api
from openane.devices.macos.directories import ModelDirectory, weight_file
from openane.devices.macos.framework import Framework
from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.loaded_model import LoadedMemoryModel
from openane.devices.macos.routes import COMPILATIONS, RouteOptions, compilations
from openane.devices.macos.symbols import RuntimeSymbols
from openane.errors import DeviceChanged, DeviceRejected


class MemoryRoute:
    """See `Route`."""

    def __init__(self, symbols: RuntimeSymbols, options: RouteOptions) -> None:
        """Loads the framework and checks every class and method it will call."""
        self._framework = Framework(symbols, options)
        self.compilations = compilations(symbols)
        self._lock = RLock()
        self._models: list[LoadedMemoryModel] = []

    def load(self, program: GraphProgram) -> LoadedMemoryModel:
        """See `Route.load`."""
        with self._lock:
            self.compilations.take(COMPILATIONS)
            self._models = [model for model in self._models if not model.closed]
        with self._framework.objc.pool():
            made = self._made(program)
        with self._lock:
            self._models.append(made)
        return made

    def close(self) -> None:
        """See `Route.close`."""
        with self._lock:
            models, self._models = self._models, []
        every(model.close for model in models)

    def _made(self, program: GraphProgram) -> LoadedMemoryModel:
        """A compiled and loaded model; nothing is left when that fails."""
        model = self._described(program)
        directory = self._directory(model, program)
        kept = self._framework.objc.retain(model)
        loaded = LoadedMemoryModel(self._framework, program, kept, directory, self._forget)
        try:
            self._framework.compile(program, model)
            loaded.prepare()
        except BaseException:
            loaded.close()
            raise
        return loaded

    def _described(self, program: GraphProgram) -> int:
        """An _ANEInMemoryModel of the program, autoreleased."""
        known, objc = self._framework.foundation, self._framework.objc
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
        known = self._framework.foundation
        path = known.text(self._framework.optional(model, api.LOCAL_PATH))
        if not path:
            identifier = known.text(self._framework.objc.send(model, api.IDENTIFIER) or 0)
            if not identifier or "/" in identifier:
                raise DeviceChanged(f"the identifier of {api.MODEL}", expected="a name", found=repr(identifier))
            path = str(Path(known.temporary_directory()) / identifier)
        if not Path(path).is_absolute() or len(Path(path).parts) < 3:
            raise DeviceChanged(f"the directory of {api.MODEL}", expected="an absolute path", found=repr(path))
        self._framework.options.noted(path)
        return ModelDirectory(Path(path), program.text, program.weights)

    def _forget(self, model: LoadedMemoryModel) -> None:
        """Drops a closed model."""
        with self._lock:
            self._models = [known for known in self._models if known is not model]
