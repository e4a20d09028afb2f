"""The private framework of in-memory models: its classes checked, and messages to its objects."""

from __future__ import annotations

import ctypes
from typing import Any

from openane.devices.macos import interfaces as api
from openane.devices.macos.foundation import ErrorFacts, Foundation
from openane.devices.macos.graph_program import GraphProgram
from openane.devices.macos.objc import ObjC
from openane.devices.macos.routes import RouteOptions
from openane.devices.macos.surfaces import Surfaces
from openane.devices.macos.symbols import NEURAL_ENGINE, RuntimeSymbols
from openane.errors import DeviceRejected


class Framework:
    """What a route and its loaded models call."""

    def __init__(self, symbols: RuntimeSymbols, options: RouteOptions) -> None:
        """Loads the framework and checks every class and method that will be called."""
        self.options, self.symbols = options, symbols
        self.objc = ObjC(symbols)
        self.foundation = Foundation(symbols, self.objc)
        symbols.load(NEURAL_ENGINE)
        self.surfaces = Surfaces(symbols, self.objc, self.foundation)
        for table in (api.NEEDED, api.NEEDED_BY_PATH[options.path]):
            for name, needed in table.items():
                self.objc.check(name, *needed.factory, of_class=True)
                self.objc.check(name, *needed.methods)

    def call(self, receiver: int, selector: Any, *arguments: Any) -> ErrorFacts | None:
        """Sends a message whose last argument is an NSError**: None when it gives YES, else what the error says."""
        error = ctypes.c_void_p(0)
        if self.objc.send(receiver, selector, *arguments, ctypes.byref(error)):
            return None
        return self.foundation.error(error.value)

    def optional(self, receiver: int, selector: Any) -> int:
        """The object a method without arguments gives; 0 where the system has no such method."""
        return (self.objc.send(receiver, selector) or 0) if self.objc.responds(receiver, selector) else 0

    def compile(self, program: GraphProgram, model: int) -> None:
        """Compiles a model. DeviceRejected with the system's text."""
        self._require(program, "the compiler", self.call(model, api.COMPILE, self.options.qos,
                                                         self.foundation.dictionary()))

    def load(self, program: GraphProgram, model: int) -> None:
        """Loads a compiled model. DeviceRejected with the system's text."""
        self._require(program, "the loader", self.call(model, api.LOAD, self.options.qos, self.foundation.dictionary()))

    @staticmethod
    def _require(program: GraphProgram, who: str, failed: ErrorFacts | None) -> None:
        if failed is not None:
            text = failed.text or "no text was given"
            raise DeviceRejected(f"model {program.name!r}", [f"{who} says: {text} ({failed.domain} {failed.code})"])
