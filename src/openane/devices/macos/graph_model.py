"""A model as this device runs it: one step per function, which is its whole graph, and buffers without gaps.

It is put in the terms in which every device runs models (`devices.steps`), so that states, functions, reads, writes and
pipelines are the same code: the graph takes the place of the engine's program. Ports of whole numbers beyond a byte lie
in 16-bit buffers whose bits the host writes and reads, as steps of its own that the model lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from math import prod

import numpy as np

from openane.devices.executable import BufferExecutable
from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.hosting import Hosted
from openane.devices.macos.live_layout import ELEMENTS
from openane.devices.protocol import Arrays, EngineStep, HostOperation, LoadableModel, ModelState, SurfacePort
from openane.errors import DeviceError
from openane.graph import numpy_type
from openane.program import Buffer, Constants, Layout, Program, Role
from openane.program.patch import ByteRange
from openane.record_classes import dataclass
from openane.simulator import RunReport, TaskReport

WIDE = ("int16", "uint16")
"""Element types whose bits are moved as those of fp16."""


@dataclass(frozen=True, slots=True)
class GraphModelPort:
    """See `SurfacePort`."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    layout: Layout


@dataclass(frozen=True, slots=True)
class GraphModelState:
    """See `ModelState`."""

    port: GraphModelPort
    next: str | None


@dataclass(frozen=True, slots=True)
class GraphModelStep:
    """See `EngineStep`."""

    program: int = 0


@dataclass(frozen=True, slots=True)
class _Bits:
    """Whole numbers on one side, 16-bit integers `element` in a buffer on the other."""

    source: GraphModelPort
    target: GraphModelPort
    element: str

    @property
    def operands(self) -> Sequence[GraphModelPort]:
        """See `HostOperation`."""
        return (self.source,)

    @property
    def results(self) -> Sequence[GraphModelPort]:
        """See `HostOperation`."""
        return (self.target,)


@dataclass(frozen=True, slots=True)
class ToBits(_Bits):
    """Whole numbers to the buffer of an input that takes them as 16-bit integers."""

    def compute(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """See `HostOperation`. DeviceError for numbers beyond 16 bits."""
        values, limits = arrays[self.source.name], np.iinfo(self.element)
        beyond = values[(values < limits.min) | (values > limits.max)]
        if beyond.size:
            raise DeviceError(f"{self.source.name} holds {beyond.reshape(-1)[0]}; the runtime takes it as "
                              f"{self.element}, {limits.min} to {limits.max}")
        return {self.target.name: values.astype(self.element).view(np.float16)}


@dataclass(frozen=True, slots=True)
class FromBits(_Bits):
    """The buffer of an output that holds 16-bit integers to whole numbers."""

    def compute(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """See `HostOperation`. DeviceError for a number at the end of 16 bits: one beyond is cast to it."""
        values = np.ascontiguousarray(arrays[self.source.name]).view(self.element)
        limits = np.iinfo(self.element)
        ends = (values == limits.max) | ((values == limits.min) if limits.min else False)
        if self.target.dtype != self.element and ends.any():
            raise DeviceError(f"output {self.target.name!r} is {self.target.dtype}, but the runtime gives "
                              f"{self.element} and it reached the end of its range, {limits.min} to {limits.max}")
        return {self.target.name: values.astype(numpy_type(self.target.dtype))}


@dataclass(frozen=True, slots=True)
class GraphTask(Program):
    """What takes the place of an engine program: the buffers of a graph, and who runs it. `ports` has the graph's port
    by the name of the buffer."""

    hosted: Hosted | None = field(default=None, compare=False)
    ports: Mapping[str, GraphPort] = field(default_factory=dict, compare=False)
    what: str = "graph"
    """What it is, for reports."""


@dataclass(frozen=True)
class GraphFunction:
    """See `LoadableModel`: one function, and in `others` those that share its states."""

    name: str
    programs: Sequence[Program]
    steps: Sequence[EngineStep | HostOperation]
    inputs: Sequence[SurfacePort]
    outputs: Sequence[SurfacePort]
    states: Sequence[ModelState]
    others: tuple[GraphFunction, ...] = ()

    @property
    def functions(self) -> Mapping[str, LoadableModel]:
        """Every function by name, this one first."""
        return {each.name: each for each in (self, *self.others)}


def _ports(model: LoadableModel) -> dict[str, SurfacePort]:
    """The ports of a model by name, what states become among them."""
    ports = {port.name: port for port in (*model.inputs, *model.outputs)}
    ports |= {state.port.name: state.port for state in model.states}
    return {state.next: state.port for state in model.states if state.next is not None} | ports


def graph_function(model: LoadableModel, program: GraphProgram, hosted: Hosted) -> GraphFunction:
    """A function of a model, run by `hosted`."""
    shapes = _ports(model)
    buffers: dict[str, GraphPort] = {}
    known: dict[str, GraphModelPort] = {}
    before: list[EngineStep | HostOperation] = []
    after: list[EngineStep | HostOperation] = []
    for sides, moved in ((program.inputs, before), (program.outputs, after)):
        for each in sides:
            port = GraphModelPort(each.name, shapes[each.name].shape, each.dtype, _layout(each, shapes[each.name]))
            known[each.name] = port
            if each.element not in WIDE:
                buffers[each.name] = each
                continue
            bits = GraphModelPort(f"{each.name} as {each.element}", port.shape, "fp16", port.layout)
            known[bits.name], buffers[bits.name] = bits, each
            moved.append(ToBits(port, bits, each.element) if moved is before else FromBits(bits, port, each.element))
    inputs = {port.mil for port in program.inputs}
    task = GraphTask("any", (), b"", tuple(
        Buffer(name, number, Role.INPUT if port.mil in inputs else Role.OUTPUT, known[name].layout.size,
               known[name].layout) for number, (name, port) in enumerate(buffers.items())), program.name,
        hosted=hosted, ports=buffers)
    return GraphFunction(
        program.name, (task,), (*before, GraphModelStep(), *after), [known[port.name] for port in model.inputs],
        [known[port.name] for port in model.outputs],
        [GraphModelState(known[state.port.name], program.carried.get(state.port.name)) for state in model.states])


class GraphExecutable(BufferExecutable):
    """A graph on the device: a run copies its buffers to where the runtime is, and back."""

    def __init__(self, task: GraphTask, buffers: Mapping[str, np.ndarray]) -> None:
        """Takes over the task's `hosted`."""
        super().__init__(task)
        assert task.hosted is not None
        self._hosted, self._ports, self._stores = task.hosted, task.ports, dict(buffers)
        self._label = f"{task.what} {task.name!r}"

    def stores(self) -> Mapping[str, np.ndarray]:
        """See `BufferExecutable.stores`."""
        return self._stores

    def execute_buffers(self) -> RunReport:
        """See `BufferExecutable.execute_buffers`. The report has the graph as its one task, and says what carried it
        out."""
        for buffer in self.program.inputs:
            tensor = self._hosted.inputs[self._ports[buffer.name].mil]
            tensor.reshape(-1).view(np.uint8)[:] = self._stores[buffer.name][:buffer.size]
        facts = self._hosted.run()
        for buffer in self.program.outputs:
            tensor = self._hosted.outputs[self._ports[buffer.name].mil]
            self._stores[buffer.name][:buffer.size] = tensor.reshape(-1).view(np.uint8)
        return RunReport((TaskReport(0, f"{self._label} on {facts}"),), facts.seconds)

    def rebind(self, name: str, memory: np.ndarray) -> None:
        """See `BufferExecutable.rebind`."""
        buffer = self.program.buffer(name)
        if memory.dtype != np.uint8 or memory.size < buffer.size:
            raise DeviceError(f"buffer {name!r} takes {buffer.size} bytes of uint8, not {memory.size} of "
                              f"{memory.dtype}")
        self._stores[name] = memory

    @property
    def fixed(self) -> str:
        """See `Executable.fixed`."""
        return "the system's runtime takes the weights when it loads the model, and offers no way to change them"

    def rewrite(self, constants: Constants, ranges: Sequence[ByteRange]) -> None:
        """See `fixed`: it is not asked for."""

    def release(self) -> None:
        """See `BufferExecutable.release`."""
        self._hosted.close()


def _layout(port: GraphPort, model: SurfacePort) -> Layout:
    """The tensor without gaps, in the extents the compiled model gives its surface: so a patch of part of it means the
    same here."""
    dtype = ELEMENTS[port.element]
    shape = model.layout.shape if prod(model.layout.shape) == prod(port.shape) else (1, 1, 1, 1, prod(port.shape))
    n, c, d, h, w = shape
    row = w * dtype.size
    return Layout((n, c, d, h, w), (row * h * d * c, row * h * d, row * h, row, dtype.size), dtype)
