"""What the executables of every device that binds buffers share: names checked, tensors packed, runs kept in order.

A subclass says where the bytes of its buffers are (`stores`) and how they are executed once (`execute_buffers`).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from threading import RLock
from types import TracebackType
from typing import Self

import numpy as np

from openane.devices.constants import differing, require_constants
from openane.devices.packer import as_array, logical_shape, pack, unpack, update
from openane.devices.protocol import Arrays, Index
from openane.devices.submissions import Submissions
from openane.errors import DeviceError, UnsupportedError, VerifyError
from openane.program import Buffer, Constants, Program
from openane.program.patch import ByteRange
from openane.program.verify.constants import ConstantRules
from openane.simulator import RunReport


class BufferExecutable(ABC):
    """See `Executable`. Runs, patches and bindings of one executable exclude each other, in whatever thread."""

    def __init__(self, program: Program, verified: bool = True) -> None:
        """`verified` says whether the program's rules are to hold of its constants when they change, too."""
        self.program, self.verified = program, verified
        self._rules: ConstantRules | None = None
        self.report = RunReport()
        self._lock = RLock()
        self._queue = Submissions("the executable")
        self._closed = False

    @property
    def fixed(self) -> str:
        """See `Executable.fixed`."""
        return ""

    @abstractmethod
    def stores(self) -> Mapping[str, np.ndarray]:
        """Bytes (uint8) of every buffer by name."""

    @abstractmethod
    def execute_buffers(self) -> RunReport:
        """Executes once on what the buffers hold."""

    @abstractmethod
    def rebind(self, name: str, memory: np.ndarray) -> None:
        """Puts other memory behind a buffer. DeviceError or SimulationError when it does not fit."""

    @abstractmethod
    def rewrite(self, constants: Constants, ranges: Sequence[ByteRange]) -> None:
        """Puts these constants in the place of the program's, from which they differ in these bytes. When it fails the
        constants are those of before."""

    @abstractmethod
    def release(self) -> None:
        """Gives everything back; called once."""

    def bind(self, name: str, memory: np.ndarray) -> None:
        """See `Executable.bind`."""
        if not isinstance(memory, np.ndarray):
            raise DeviceError(f"buffer {name!r} takes an array of uint8, not {type(memory).__name__}")
        with self._lock:
            self.require_open()
            self.rebind(name, memory)

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """See `Executable.run`."""
        self._check_names(inputs)
        with self._lock:
            self.require_open()
            stores = self.stores()
            notes = [_put(buffer, stores[buffer.name], inputs[buffer.name]) for buffer in self.program.inputs]
            report = self.execute_buffers()
            self.report = replace(report, conversions=tuple(note for note in notes if note))
            return {buffer.name: _get(buffer, stores[buffer.name]) for buffer in self.program.outputs}

    def execute(self) -> None:
        """See `Executable.execute`."""
        with self._lock:
            self.require_open()
            self.report = self.execute_buffers()

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Future[Arrays]:
        """See `Executable.submit`."""
        self._check_names(inputs)
        copied = {name: np.array(as_array(values, name)) for name, values in inputs.items()}
        return self._queue.submit(self.run, copied)

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """See `Executable.patch`. DeviceError when the values do not fit the part they are written to."""
        buffer = self.program.buffer(name)
        if buffer.layout is None:
            raise DeviceError(f"buffer {name!r} has no described tensor that could be patched")
        with self._lock:
            self.require_open()
            update(buffer.layout, self.stores()[name], values, index, name=name)

    def update_constants(self, constants: Constants) -> None:
        """See `Executable.update_constants`."""
        require_constants(self.program, constants)
        with self._lock:
            self.require_open()
            if self.fixed:
                raise UnsupportedError(f"new constants for {self.program.name!r}", self.fixed,
                                       remedy="load the program or model that has them")
            ranges = differing(self.program.constants, constants)
            if not ranges:
                return
            if self.verified:
                self._rules = self._rules or ConstantRules(self.program)
                broken = self._rules.violations(constants, ranges)
                if broken:
                    raise VerifyError(broken)
            self.rewrite(constants, ranges)
            self.program = replace(self.program, constants=constants)

    def close(self) -> None:
        """Waits for what was submitted and gives the memory back. Closing twice does nothing."""
        self._queue.close()
        with self._lock:
            if not self._closed:
                self._closed = True
                self.release()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    def require_open(self) -> None:
        """DeviceError after `close`."""
        if self._closed:
            raise DeviceError("the executable is closed")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _check_names(self, inputs: Mapping[str, np.ndarray]) -> None:
        wanted = {buffer.name: buffer for buffer in self.program.inputs}
        missing, unknown = [n for n in wanted if n not in inputs], [n for n in inputs if n not in wanted]
        if missing or unknown:
            expected = ", ".join(f"{name} {_describe(buffer)}" for name, buffer in wanted.items()) or "none"
            problems = [f"{word} {', '.join(map(repr, names))}" for word, names in
                        (("missing", missing), ("not an input:", unknown)) if names]
            raise DeviceError(f"the inputs of {self.program.name!r} are {expected}; {' and '.join(problems)}")


def _put(buffer: Buffer, store: np.ndarray, values: np.ndarray) -> str | None:
    if buffer.layout is not None:
        return pack(values, buffer.layout, store, buffer.name)
    data = as_array(values, buffer.name)
    if data.dtype != np.uint8 or data.size != buffer.size:
        raise DeviceError(f"{buffer.name} takes {_describe(buffer)}, not {data.dtype} {list(data.shape)}")
    store[:buffer.size] = data.reshape(-1)
    return None


def _get(buffer: Buffer, store: np.ndarray) -> np.ndarray:
    if buffer.layout is None:
        return store[:buffer.size].copy()
    return unpack(buffer.layout, store, logical_shape(buffer.layout), buffer.name)


def _describe(buffer: Buffer) -> str:
    if buffer.layout is None:
        return f"{buffer.size} bytes of uint8"
    return f"{buffer.layout.dtype} {list(logical_shape(buffer.layout))}"
