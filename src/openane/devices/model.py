"""A compiled model on a device: engine programs and host operations in order, on buffers they share by name.

Each function of the model has its programs; a state is one buffer for all of them. Inputs must have the model's shapes,
outputs get them back with the model's element types.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from concurrent.futures import Future
from contextlib import ExitStack
from threading import RLock
from types import TracebackType
from typing import Self

import numpy as np

from openane.devices.closing import every
from openane.devices.packer import update
from openane.devices.protocol import Arrays, Device, Index, LoadableModel
from openane.devices.shapes import ShapeChoice, choose
from openane.devices.steps import FinishedRun, LoadedFunction, Staged, TensorBuffer
from openane.devices.submissions import Submissions
from openane.devices.targets import alike
from openane.errors import DeviceError
from openane.simulator import RunReport


class ModelExecutable:
    """See `LoadedModel`. Runs, reads and writes of one executable exclude each other, in whatever thread."""

    def __init__(self, device: Device, model: LoadableModel) -> None:
        """Loads every function's programs. DeviceError where two functions mean different tensors by one state."""
        self.report = RunReport()
        self._main = model.name
        self._queue = Submissions("the executable")
        self._lock = RLock()
        states: dict[str, TensorBuffer] = {}
        for each in model.functions.values():
            for state in each.states:
                known = states.setdefault(state.port.name, TensorBuffer.of(device, state.port.layout, state.port))
                if (known.layout, known.shape) != (state.port.layout, state.port.shape):
                    raise DeviceError(f"state {state.port.name!r} lies differently in function {each.name!r}")
        self._functions: dict[str, LoadedFunction] = {}
        self._models, self._padding = model.functions, getattr(model, "padding", None)
        try:
            for name, each in model.functions.items():
                self._functions[name] = LoadedFunction(device, each, states)
        except BaseException:
            self.close()
            raise

    def run(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> Arrays:
        """See `LoadedModel.run`. DeviceError says which input is missing, unknown or of another shape."""
        with self._lock:
            choice = self._choice(inputs, function)
            if choice is None:
                outputs, self.report = self._function(function).run(inputs)
                return outputs
            outputs, self.report = self._function(choice.function).run(choice.pad(inputs))
            return choice.cut(outputs)

    def submit(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> Future[Arrays]:
        """See `LoadedModel.submit`."""
        choice = self._choice(inputs, function)
        self._function(function if choice is None else choice.function).check(
            inputs if choice is None else choice.pad(inputs))
        copied = {name: np.array(values) for name, values in inputs.items()}
        return self._queue.submit(self.run, copied, function)

    def stage(self, inputs: Mapping[str, np.ndarray], given: Collection[str] = ()) -> Staged:
        """See `Stage.stage`."""
        return self._function(None).stage(inputs, given)

    def execute(self, staged: Staged) -> FinishedRun:
        """See `Stage.execute`."""
        with self._lock:
            finished = self._function(None).execute(staged)
            self.report = finished.report
            return finished

    def collect(self, finished: FinishedRun) -> Arrays:
        """See `Stage.collect`."""
        return self._function(None).collect(finished)

    def memory(self, name: str) -> TensorBuffer | None:
        """The device memory behind an input or output of the model's own function; None when only the host has it."""
        return self._function(None).memory.get(name)

    def read(self, name: str) -> np.ndarray:
        """See `LoadedModel.read`."""
        with self._lock:
            return self._memory(name).read(name)

    def write(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """See `LoadedModel.write`. DeviceError when the values do not fit."""
        with self._lock:
            memory = self._memory(name)
            update(memory.layout, memory.store, values, index, memory.shape, name)

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """See `LoadedModel.patch`."""
        with self._lock:
            memory = self._memory(name)
            update(memory.layout, memory.store, values, index, name=name)

    def update_constants(self, model: LoadableModel) -> None:
        """See `LoadedModel.update_constants`. All of the model is updated or nothing."""
        with self._lock:
            loaded = self._function(None).model
            if not hasattr(model, "functions"):
                raise DeviceError(f"new constants are those of a compiled model, not of {type(model).__name__}")
            model = alike(model, loaded)
            if list(model.functions) != list(self._functions):
                raise DeviceError(f"the functions of {model.name!r} are {', '.join(model.functions)}, those of the "
                                  f"loaded model {', '.join(self._functions)}: load it anew")
            with ExitStack() as undo:
                for name, function in self._functions.items():
                    before = function.model
                    function.update(model.functions[name])
                    undo.callback(function.update, before)
                undo.pop_all()

    def bind(self, name: str, memory: np.ndarray) -> None:
        """See `LoadedModel.bind`. DeviceError when no function has such a buffer."""
        if not isinstance(memory, np.ndarray):
            raise DeviceError(f"{name!r} takes an array of uint8, not {type(memory).__name__}")
        with self._lock:
            self._memory(name)
            for function in self._functions.values():
                function.bind(name, memory)

    def close(self) -> None:
        """Waits for what was submitted and closes every program."""
        self._queue.close()
        with self._lock:
            functions, self._functions = self._functions, {}
            every(function.close for function in functions.values())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _choice(self, inputs: Mapping[str, np.ndarray], function: str | None) -> ShapeChoice | None:
        """Which function of a model in several shapes the inputs are for; None where there is nothing to choose."""
        if function is not None or self._padding is None:
            return None
        return choose(self._models, self._padding, {name: np.shape(array) for name, array in inputs.items()})

    def _function(self, name: str | None) -> LoadedFunction:
        if not self._functions:
            raise DeviceError("the executable is closed")
        chosen = self._main if name is None else name
        if chosen not in self._functions:
            raise DeviceError(f"the model has no function {chosen!r}; it has {', '.join(self._functions)}")
        return self._functions[chosen]

    def _memory(self, name: str) -> TensorBuffer:
        """The memory behind a buffer of the first function that has it."""
        self._function(None)
        for function in self._functions.values():
            if name in function.memory:
                return function.memory[name]
        raise DeviceError(f"no buffer is called {name!r}; there are "
                          f"{', '.join(dict.fromkeys(n for f in self._functions.values() for n in f.memory))}")
