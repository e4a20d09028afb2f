"""Programs one after the other on one device, what passes between them kept in its memory.

Stage by stage an input takes what an earlier stage computes under the same name; a stage with one input left and one
output just before it are joined whatever they are called. Where both surfaces are alike they are one memory; where not,
the host repacks, and the link says why. A stream of inputs is packed and unpacked while the engine executes.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol, Self

import numpy as np

from openane.devices.closing import every
from openane.devices.protocol import Arrays, LoadableModel
from openane.devices.submissions import Submissions
from openane.errors import DeviceError
from openane.record_classes import dataclass
from openane.simulator import RunReport, TaskReports

MOST = 64
"""Runs that may wait at once."""


class Stage(Protocol):
    """A loaded model whose runs can be taken apart: packing, executing, unpacking."""

    @property
    def report(self) -> RunReport:
        """About the last run."""
        ...

    def stage(self, inputs: Mapping[str, np.ndarray], given: Collection[str] = ()) -> Any:
        """Packs inputs beside the device's memory; `given` are in it already."""
        ...

    def execute(self, staged: Any) -> Any:
        """Executes what was staged."""
        ...

    def collect(self, finished: Any) -> Arrays:
        """The outputs of what was executed."""
        ...

    def memory(self, name: str) -> Any:
        """The device memory behind a port, with its `layout` and `store`; None when only the host has it."""
        ...

    def bind(self, name: str, memory: np.ndarray) -> None:
        """Uses other memory for a port."""
        ...

    def close(self) -> None:
        """Gives everything back."""
        ...


@dataclass(frozen=True, slots=True)
class StageLink:
    """Output `output` of stage `source` is input `input` of stage `target`. `reason` says why the host repacks it;
    empty where both are one memory."""

    source: int
    output: str
    target: int
    input: str
    reason: str = ""

    @property
    def shared(self) -> bool:
        """Whether nothing moves between the two."""
        return not self.reason


@dataclass(frozen=True, slots=True)
class _Job:
    """A run on its way: what the engine needs, per stage."""

    inputs: Mapping[str, np.ndarray]
    first: tuple[Any, ...]


class Pipeline:
    """Loaded models in order. `links` says what passes between them, `inputs` and `outputs` what is left for outside:
    (stage, port name) by name."""

    def __init__(self, models: Sequence[LoadableModel], stages: Sequence[Stage], depth: int = 2) -> None:
        """`stages` are `models` on the device and are closed with it; `depth` runs may wait. DeviceError where the
        stages do not fit each other."""
        if not models:
            raise DeviceError("a pipeline needs at least one model")
        if not 1 <= depth <= MOST:
            raise DeviceError(f"the depth of a pipeline is 1 to {MOST}, not {depth}")
        self._models, self._stages, self._depth = tuple(models), tuple(stages), depth
        self.links = tuple(self._joined(link) for link in _links(self._models))
        taken = {(link.target, link.input) for link in self.links}
        self.inputs = _outer([(k, port.name) for k, model in enumerate(models) for port in model.inputs
                              if (k, port.name) not in taken], "input", shares=True)
        given = {(link.source, link.output) for link in self.links}
        last = len(models) - 1
        self.outputs = _outer([(k, port.name) for k, model in enumerate(models) for port in model.outputs
                               if k == last or (k, port.name) not in given], "output")
        self.report = RunReport()
        self._packer, self._engine = Submissions("the pipeline"), Submissions("the pipeline")
        self._closed = False

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Runs every stage once: an array per name in `inputs` to an array per name in `outputs`."""
        return next(iter(self.stream([inputs])))

    def stream(self, runs: Iterable[Mapping[str, np.ndarray]]) -> Iterator[Arrays]:
        """The outputs of many runs, in order. While one executes, the next is packed and the one before unpacked; at
        most `depth` wait, so an endless iterable is fine."""
        if self._closed:
            raise DeviceError("the pipeline is closed")
        waiting: deque[Future[list[Any]]] = deque()
        try:
            for inputs in runs:
                packed = self._packer.submit(self._pack, dict(inputs))
                waiting.append(self._engine.submit(self._execute, packed))
                if len(waiting) > self._depth:
                    yield self._unpack(waiting.popleft().result())
            while waiting:
                yield self._unpack(waiting.popleft().result())
        finally:
            for future in waiting:
                future.cancel()
            for future in waiting:
                if not future.cancelled():
                    future.exception()

    def close(self) -> None:
        """Waits for what runs and gives the stages back. Closing twice does nothing."""
        if not self._closed:
            self._closed = True
            every([self._packer.close, self._engine.close, *(stage.close for stage in self._stages)])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        self.close()

    def _joined(self, link: StageLink) -> StageLink:
        """Makes the two ends one memory where their surfaces are alike."""
        source = self._stages[link.source].memory(link.output)
        target = self._stages[link.target].memory(link.input)
        if source is None or target is None:
            return replace(link, reason="the host computes or reads it")
        if source.layout != target.layout:
            return replace(link, reason="it lies differently in memory on the two sides")
        if target.store.size > source.store.size:
            return replace(link, reason="the memory of the first is smaller")
        self._stages[link.target].bind(link.input, source.store)
        return link

    def _given(self, index: int) -> set[str]:
        """Inputs of a stage that are in its memory already when it is its turn."""
        return {link.input for link in self.links if link.target == index and link.shared}

    def _own(self, index: int, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """The inputs a stage takes from outside."""
        return {port: np.asarray(inputs[name]) for name, places in self.inputs.items() for k, port in places
                if k == index}

    def _repacked(self, index: int) -> bool:
        return any(link.target == index and not link.shared for link in self.links)

    def _pack(self, inputs: Mapping[str, np.ndarray]) -> _Job:
        """Everything that can be packed before the first stage runs."""
        missing = [name for name in self.inputs if name not in inputs]
        unknown = [name for name in inputs if name not in self.inputs]
        if missing or unknown:
            problems = [f"{word} {', '.join(map(repr, names))}" for word, names in
                        (("missing", missing), ("not an input:", unknown)) if names]
            raise DeviceError(f"the inputs of the pipeline are {', '.join(self.inputs) or 'none'}; "
                              f"{' and '.join(problems)}")
        return _Job(inputs, tuple(
            None if self._repacked(k) else stage.stage(self._own(k, inputs), self._given(k))
            for k, stage in enumerate(self._stages)))

    def _execute(self, packed: Future[_Job]) -> list[Any]:
        """Every stage in order, on the engine's thread."""
        job = packed.result()
        finished: list[Any] = []
        reports = []
        for index, stage in enumerate(self._stages):
            staged = job.first[index]
            if staged is None:
                repacked = {link.input: self._stages[link.source].collect(finished[link.source])[link.output]
                            for link in self.links if link.target == index and not link.shared}
                staged = stage.stage({**self._own(index, job.inputs), **repacked}, self._given(index))
            finished.append(stage.execute(staged))
            reports.append(stage.report)
        self.report = RunReport(TaskReports.joined([report.tasks for report in reports]),
                                sum(report.seconds for report in reports),
                                tuple(note for report in reports for note in report.conversions))
        return finished

    def _unpack(self, finished: list[Any]) -> Arrays:
        wanted: dict[int, list[str]] = {}
        for ((index, port),) in self.outputs.values():
            wanted.setdefault(index, []).append(port)
        found = {index: self._stages[index].collect(finished[index]) for index in wanted}
        return {name: found[index][port] for name, ((index, port),) in self.outputs.items()}


def _links(models: Sequence[LoadableModel]) -> Iterator[StageLink]:
    """What passes between the models. DeviceError where an output and the input it is for have different shapes."""
    for index, model in enumerate(models[1:], 1):
        left = []
        for port in model.inputs:
            source = next((k for k in range(index - 1, -1, -1)
                           if any(known.name == port.name for known in models[k].outputs)), None)
            if source is None:
                left.append(port.name)
            else:
                yield _checked(models, StageLink(source, port.name, index, port.name))
        before = [known.name for known in models[index - 1].outputs]
        if len(left) == 1 and len(before) == 1 and len(model.inputs) == 1:
            yield _checked(models, StageLink(index - 1, before[0], index, left[0]))


def _checked(models: Sequence[LoadableModel], link: StageLink) -> StageLink:
    made = next(port for port in models[link.source].outputs if port.name == link.output)
    read = next(port for port in models[link.target].inputs if port.name == link.input)
    if made.shape != read.shape:
        raise DeviceError(f"output {made.name!r} of stage {link.source} has shape {list(made.shape)}; input "
                          f"{read.name!r} of stage {link.target}, which it is for, has {list(read.shape)}")
    return link


def _outer(ports: Sequence[tuple[int, str]], what: str, shares: bool = False) -> dict[str, tuple[tuple[int, str], ...]]:
    """Ports by name. An input of one name is one array for every stage that reads it; outputs must differ."""
    found: dict[str, tuple[tuple[int, str], ...]] = {}
    for index, name in ports:
        if name in found and not shares:
            raise DeviceError(f"two stages have an {what} called {name!r} that leaves the pipeline: rename one")
        found[name] = (*found.get(name, ()), (index, name))
    return found
