"""One function of a model on a device: its buffers, its programs, and what happens in a run."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

import numpy as np

from openane.devices.closing import every
from openane.devices.constants import require_same
from openane.devices.packer import as_array, logical_shape, pack, unpack
from openane.devices.protocol import Arrays, Device, EngineStep, Executable, HostOperation, LoadableModel, ModelPort
from openane.errors import DeviceError, UnsupportedError
from openane.graph import numpy_type
from openane.program import Layout, Role
from openane.record_classes import dataclass
from openane.simulator import RunReport, TaskReport, TaskReports


@dataclass(slots=True)
class TensorBuffer:
    """A buffer: its bytes, how the tensor lies in them, and the tensor's shape and MIL dtype."""

    store: np.ndarray
    layout: Layout
    shape: tuple[int, ...]
    dtype: str | None

    @staticmethod
    def of(device: Device, layout: Layout, port: ModelPort | None) -> TensorBuffer:
        """Fresh zeroed memory; without a port the shape is the surface's."""
        shape, dtype = (logical_shape(layout), None) if port is None else (port.shape, port.dtype)
        return TensorBuffer(device.allocate(layout.size), layout, shape, dtype)

    def read(self, name: str, dtype: str | None = None) -> np.ndarray:
        """A copy of the tensor, in its own or another element type."""
        values = unpack(self.layout, self.store, self.shape, name)
        wanted = dtype or self.dtype
        return values if wanted is None else convert(values, wanted, name)


@dataclass(frozen=True, slots=True)
class Staged:
    """The inputs of a run, packed beside the device's memory: `surfaces` are the bytes of its buffers, by name."""

    surfaces: Mapping[str, np.ndarray]
    known: Arrays
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FinishedRun:
    """What a run left: the bytes of its outputs, by name, what the host computed, and the report."""

    surfaces: Mapping[str, np.ndarray]
    known: Arrays
    report: RunReport


def _without(names: Iterable[str], others: Container[str]) -> list[str]:
    return [name for name in names if name not in others]


class LoadedFunction:
    """The programs of one function. `memory` has every buffer that is named in the model, by name."""

    def __init__(self, device: Device, model: LoadableModel, states: Mapping[str, TensorBuffer]) -> None:
        self._model = model
        self._inputs = {port.name: port for port in model.inputs}
        self._typed: dict[str, ModelPort] = {port.name: port for port in (*model.inputs, *model.outputs)}
        for step in model.steps:
            if isinstance(step, HostOperation):
                self._typed |= {p.name: p for p in (*step.operands, *step.results) if p.name not in self._typed}
        self.memory = {state.port.name: states[state.port.name] for state in model.states}
        self._programs: list[Executable] = []
        try:
            self._load(device)
        except BaseException:
            self.close()
            raise

    def _load(self, device: Device) -> None:
        """Loads the programs over the buffers they share."""
        for program in self._model.programs:
            ports = [buffer for buffer in program.buffers if buffer.role is not Role.SCRATCH]
            for buffer in ports:
                if buffer.layout is None:
                    raise DeviceError(f"buffer {buffer.name!r} of program {program.name!r} has no described tensor")
                known = self.memory.get(buffer.name)
                if known is None:
                    known = TensorBuffer.of(device, buffer.layout, self._typed.get(buffer.name))
                    self.memory[buffer.name] = known
                if known.layout != buffer.layout:
                    raise DeviceError(f"programs of the model disagree about how {buffer.name!r} lies in memory")
            stores = {buffer.name: self.memory[buffer.name].store for buffer in ports}
            self._programs.append(device.load(program, stores))

    @property
    def model(self) -> LoadableModel:
        """The model whose constants the programs have."""
        return self._model

    def update(self, model: LoadableModel) -> None:
        """The constants, and host operations, of the same model with other weights. DeviceError where more differs,
        else as `Executable.update_constants`; then nothing has changed."""
        for executable in self._programs:
            if executable.fixed:
                raise UnsupportedError(f"new constants for {model.name!r}", executable.fixed, remedy="load it anew")
        known = self._model
        if len(known.programs) != len(model.programs) or [_kind(step) for step in known.steps] != [
                _kind(step) for step in model.steps]:
            raise DeviceError(f"the steps of {model.name!r} are not those of the loaded model: load it anew")
        for before, after in zip(known.programs, model.programs, strict=True):
            require_same(before, after)
        with ExitStack() as undo:
            for executable, before, after in zip(self._programs, known.programs, model.programs, strict=True):
                executable.update_constants(after.constants)
                undo.callback(executable.update_constants, before.constants)
            undo.pop_all()
        self._model = model

    def run(self, inputs: Mapping[str, np.ndarray]) -> tuple[Arrays, RunReport]:
        """Every step once, then the states take their next contents."""
        self.check(inputs)
        known: Arrays = {}
        notes = [self._put(name, np.asarray(values), known) for name, values in inputs.items()]
        report = self._execute_steps(known, tuple(note for note in notes if note))
        outputs = {port.name: self._get(port.name, port.dtype, known).reshape(port.shape)
                   for port in self._model.outputs}
        self._advance(known)
        return outputs, report

    def stage(self, inputs: Mapping[str, np.ndarray], given: Collection[str] = ()) -> Staged:
        """Packs the inputs beside the device's memory, so that it may happen while another run executes. `given` are
        inputs somebody else leaves in their buffers."""
        self.check(inputs, given)
        known = {name: np.array(values) for name, values in inputs.items()}
        surfaces, notes = {}, []
        for name, values in known.items():
            memory = self.memory.get(name)
            if memory is not None:
                surfaces[name] = np.zeros(memory.layout.size, np.uint8)
                notes.append(pack(values, memory.layout, surfaces[name], name))
        return Staged(surfaces, known, tuple(note for note in notes if note))

    def execute(self, staged: Staged) -> FinishedRun:
        """Executes a staged run: the only part that touches the device's memory."""
        for name, surface in staged.surfaces.items():
            self.memory[name].store[:surface.size] = surface
        known = dict(staged.known)
        report = self._execute_steps(known, staged.notes)
        outputs = [port.name for port in self._model.outputs]
        left = {name: self.memory[name] for name in outputs if name not in known}
        found = FinishedRun({name: memory.store[:memory.layout.size].copy() for name, memory in left.items()},
                            {name: known[name] for name in outputs if name in known}, report)
        self._advance(known)
        return found

    def collect(self, finished: FinishedRun) -> Arrays:
        """The outputs of a finished run, in the model's shapes and element types."""
        outputs = {}
        for port in self._model.outputs:
            surface = finished.surfaces.get(port.name)
            if surface is None:
                outputs[port.name] = self._get(port.name, port.dtype, finished.known).reshape(port.shape)
            else:
                kept = replace(self.memory[port.name], store=surface)
                outputs[port.name] = kept.read(port.name, port.dtype).reshape(port.shape)
        return outputs

    def _execute_steps(self, known: Arrays, notes: tuple[str, ...]) -> RunReport:
        """Every step once on what the buffers and `known` hold; what the host computes is added to `known`."""
        done = list[Sequence[TaskReport]]()
        seconds = 0.0
        for step in self._model.steps:
            if isinstance(step, HostOperation):
                found = step.compute({port.name: self._get(port.name, port.dtype, known) for port in step.operands})
                for name, values in found.items():
                    self._put(name, values, known)
                continue
            executable = self._programs[step.program]
            executable.execute()
            done.append(executable.report.tasks)
            seconds += executable.report.seconds
        return RunReport(TaskReports.joined(done), seconds, notes)

    def check(self, inputs: Mapping[str, np.ndarray], given: Collection[str] = ()) -> None:
        """DeviceError unless the inputs are those of the model but for `given`, in the model's shapes."""
        wanted = [name for name in self._inputs if name not in given]
        problems = [f"{word} {', '.join(map(repr, names))}" for word, names in
                    (("missing", _without(wanted, inputs)), ("not an input:", _without(inputs, wanted))) if names]
        if problems:
            expected = ", ".join(f"{p.name} {p.dtype} {list(p.shape)}" for p in self._inputs.values()) or "none"
            raise DeviceError(f"the inputs of {self._model.name!r} are {expected}; {' and '.join(problems)}")
        for name, values in inputs.items():
            shape = as_array(values, f"input {name!r}").shape
            if shape != self._inputs[name].shape:
                raise DeviceError(f"input {name!r} must have shape {list(self._inputs[name].shape)}, not {list(shape)}")

    def bind(self, name: str, store: np.ndarray) -> None:
        """Other memory behind a buffer, where the function has it. When one of its programs does not take it, all keep
        what they had. DeviceError when it does not fit."""
        memory = self.memory.get(name)
        if memory is None:
            return
        if store.dtype != np.uint8 or store.ndim != 1 or store.size < memory.layout.size:
            raise DeviceError(f"{name!r} takes {memory.layout.size} bytes of uint8, not {store.size} of {store.dtype} "
                              f"in {store.ndim} dimensions")
        with ExitStack() as undo:
            for program, executable in zip(self._model.programs, self._programs, strict=True):
                if any(buffer.name == name for buffer in program.buffers if buffer.role is not Role.SCRATCH):
                    executable.bind(name, store)
                    undo.callback(executable.bind, name, memory.store)
            undo.pop_all()
        memory.store = store

    def close(self) -> None:
        """Closes the programs."""
        every(executable.close for executable in self._programs)

    def _put(self, name: str, values: np.ndarray, known: Arrays) -> str | None:
        """Keeps an array for the host, and packs it where a program reads it."""
        known[name] = values
        memory = self.memory.get(name)
        return None if memory is None else pack(values, memory.layout, memory.store, name)

    def _get(self, name: str, dtype: str, known: Arrays) -> np.ndarray:
        """A tensor the host has, or one a program left in memory."""
        if name not in known:
            return self.memory[name].read(name, dtype)
        wanted = numpy_type(dtype)
        if known[name].dtype.kind in "fc" and wanted.kind in "iub":
            raise DeviceError(f"{name!r} is {dtype}; it was given as {known[name].dtype}")
        with np.errstate(all="ignore"):
            return known[name].astype(wanted, copy=False)

    def _advance(self, known: Arrays) -> None:
        """What the run left for the states becomes their contents."""
        for state in self._model.states:
            target = self.memory[state.port.name]
            if state.next is not None and state.next in known:
                pack(known[state.next], target.layout, target.store, state.port.name)
            elif state.next is not None:
                target.store[:target.layout.size] = self.memory[state.next].store[:target.layout.size]


def _kind(step: EngineStep | HostOperation) -> tuple[object, ...]:
    """What must be alike in steps that may take each other's place."""
    if isinstance(step, HostOperation):
        return tuple((port.name, port.shape, port.dtype) for port in (*step.operands, *step.results))
    return (step.program,)


def convert(array: np.ndarray[Any, Any], dtype: str, name: str) -> np.ndarray[Any, Any]:
    """A surface's elements in a port's element type. DeviceError when an infinite or NaN fp16 was made for an integer
    one."""
    wanted = numpy_type(dtype)
    if wanted.kind in "iu" and array.dtype.kind == "f":
        if not np.isfinite(array).all():
            raise DeviceError(f"output {name!r} is {dtype}, but the engine computes it in fp16 and it left its range")
        limits = np.iinfo(dtype)
        array = np.clip(np.rint(array.astype(np.float64)), limits.min, limits.max)
    return array.astype(wanted, copy=False)
