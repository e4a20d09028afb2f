"""A compiled model on a device: its one engine program, with the shapes and element types the model states.

The device packs inputs by element order; here they must have the model's shapes, and outputs get them back.
"""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from types import TracebackType
from typing import Self

import numpy as np

from openane.devices.protocol import Arrays, CompiledModel, Executable, Index
from openane.errors import DeviceError
from openane.graph import numpy_type
from openane.simulator import RunReport


class ModelExecutable:
    """An executable (see `Executable`) that speaks in a model's ports."""

    def __init__(self, executable: Executable, model: CompiledModel) -> None:
        self._executable = executable
        self._inputs = {port.name: port for port in model.inputs}
        self._outputs = tuple(model.outputs)

    @property
    def report(self) -> RunReport:
        """About the last run."""
        return self._executable.report

    def bind(self, name: str, memory: np.ndarray) -> None:
        """See `Executable.bind`."""
        self._executable.bind(name, memory)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Executable.run`. DeviceError when an input has not the model's shape; outputs have the model's shapes
        and element types."""
        self._check(inputs)
        return self._shaped(self._executable.run(inputs))

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Future[Arrays]:
        """See `Executable.submit`."""
        self._check(inputs)
        done: Future[Arrays] = Future()
        self._executable.submit(inputs).add_done_callback(lambda running: self._finish(running, done))
        return done

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """See `Executable.patch`."""
        self._executable.patch(name, values, index)

    def close(self) -> None:
        """See `Executable.close`."""
        self._executable.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check(self, inputs: Mapping[str, np.ndarray]) -> None:
        for name, values in inputs.items():
            port = self._inputs.get(name)  # unknown names are refused by the program's executable
            if port is not None and np.shape(values) != port.shape:
                raise DeviceError(f"input {name!r} must have shape {list(port.shape)}, not {list(np.shape(values))}")

    def _shaped(self, found: Arrays) -> Arrays:
        return {port.name: found[port.name].reshape(port.shape).astype(numpy_type(port.dtype), copy=False)
                for port in self._outputs}

    def _finish(self, running: Future[Arrays], done: Future[Arrays]) -> None:
        error = running.exception()
        if error is not None:
            done.set_exception(error)
        else:
            done.set_result(self._shaped(running.result()))
