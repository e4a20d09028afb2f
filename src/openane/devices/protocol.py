"""What every device offers: info, allocate, load, close; and what it loads: bind, run, submit, patch, close."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Protocol, Self, overload, runtime_checkable

import numpy as np

from openane.program import Constants, Layout, Program
from openane.program.verify import Verified
from openane.record_classes import dataclass
from openane.simulator import RunReport

Arrays = dict[str, np.ndarray]
Index = tuple[int | slice, ...]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device says about itself."""

    name: str
    chip: str
    description: str
    engine: bool = False
    """Whether a real engine computes."""
    takes: tuple[str, ...] = ("program", "model")
    """What it loads: engine programs, compiled models."""


class ModelPort(Protocol):
    """A named input or output: shape and MIL dtype."""

    @property
    def name(self) -> str:
        """Name of the port and of its buffer."""
        ...

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape in the model."""
        ...

    @property
    def dtype(self) -> str:
        """MIL name of the element type."""
        ...


class ModelState(Protocol):
    """A tensor that persists between runs."""

    @property
    def port(self) -> SurfacePort:
        """The buffer a run reads."""
        ...

    @property
    def next(self) -> str | None:
        """Name of the buffer in which a run leaves the new contents; None when it leaves them alone."""
        ...


class SurfacePort(ModelPort, Protocol):
    """A port that says how its tensor lies in memory."""

    @property
    def layout(self) -> Layout:
        """The surface."""
        ...


@runtime_checkable
class HostOperation(Protocol):
    """A step the host computes."""

    @property
    def operands(self) -> Sequence[ModelPort]:
        """What it reads."""
        ...

    @property
    def results(self) -> Sequence[ModelPort]:
        """What it computes."""
        ...

    def compute(self, arrays: Mapping[str, np.ndarray]) -> Arrays:
        """Results by name for operands by name."""
        ...


class EngineStep(Protocol):
    """A step that executes a program."""

    @property
    def program(self) -> int:
        """Its number in the model."""
        ...


class LoadableModel(Protocol):
    """What a device needs of a compiled model (`openane.compiler.Model` is one)."""

    @property
    def name(self) -> str:
        """Name of the function."""
        ...

    @property
    def programs(self) -> Sequence[Program]:
        """Engine programs; buffers of one name are one memory."""
        ...

    @property
    def steps(self) -> Sequence[EngineStep | HostOperation]:
        """What to do, in order."""
        ...

    @property
    def inputs(self) -> Sequence[SurfacePort]:
        """Inputs in the model's order."""
        ...

    @property
    def outputs(self) -> Sequence[SurfacePort]:
        """Outputs in the model's order."""
        ...

    @property
    def states(self) -> Sequence[ModelState]:
        """What persists between runs."""
        ...

    @property
    def functions(self) -> Mapping[str, LoadableModel]:
        """Every function by name, the model itself first."""
        ...


class Executable(Protocol):
    """A program on a device. Buffers other than inputs and outputs keep their contents between runs."""

    @property
    def report(self) -> RunReport:
        """About the last run; empty before the first."""
        ...

    @property
    def fixed(self) -> str:
        """Why it takes no new constants; empty where it does."""
        ...

    def bind(self, name: str, memory: np.ndarray) -> None:
        """Uses `memory` (from the device's `allocate`) for a buffer, so that executables can share it."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Runs once: an array per input name to an array per output name.

        Inputs have as many elements as the port and its dtype; float32 and float64 are rounded to fp16, which the
        report says. Outputs are fp16 (or the integers the port holds). DeviceError lists what is expected.
        """
        ...

    def execute(self) -> None:
        """Runs once on what the buffers hold."""
        ...

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Future[Arrays]:
        """The same without waiting; submissions run in order."""
        ...

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """Writes `values` into part of a buffer's tensor; `index` selects it in N, C, D, H, W, as in numpy."""
        ...

    def update_constants(self, constants: Constants) -> None:
        """Gives the program other constants, as many bytes as it has; what was submitted and has not begun takes them,
        too. It is not verified again, but for activation tables and zero-skipping streams: others are mere numbers.

        VerifyError when these are malformed, DeviceError for another number of bytes, UnsupportedError where the device
        takes none (`fixed`). After an error the constants are those of before.
        """
        ...

    def close(self) -> None:
        """Gives the memory back."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Closes."""
        ...


class LoadedModel(Protocol):
    """A model on a device: its programs and host operations in order. States keep their contents between runs."""

    @property
    def report(self) -> RunReport:
        """About the last run: the tasks of all programs, numbered through."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> Arrays:
        """Runs `function` (default: the model's own) once. Inputs must have, and outputs get, the shapes and element
        types the model states."""
        ...

    def submit(self, inputs: Mapping[str, np.ndarray], function: str | None = None) -> Future[Arrays]:
        """The same without waiting; submissions run in order."""
        ...

    def read(self, name: str) -> np.ndarray:
        """A copy of a state, input, output or intermediate."""
        ...

    def write(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """Writes `values` into a state or part of it; `index` selects it in the model's shape, as in numpy."""
        ...

    def bind(self, name: str, memory: np.ndarray) -> None:
        """Uses `memory` (from the device's `allocate`) for a buffer."""
        ...

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """As `Executable.patch`: `index` selects in N, C, D, H, W."""
        ...

    def update_constants(self, model: LoadableModel) -> None:
        """Gives the programs the constants of `model`, the loaded one with other weights (what `Model.patch` gives).
        States and buffers keep their contents. Errors as `Executable.update_constants`; DeviceError where more than
        constants differs."""
        ...

    def close(self) -> None:
        """Gives the memory back."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Closes."""
        ...


class ModelStream(Protocol):
    """Models in a row (`openane.devices.pipeline.Pipeline` is one)."""

    @property
    def report(self) -> RunReport:
        """About the last run: the tasks of all stages, numbered through."""
        ...

    def run(self, inputs: Mapping[str, np.ndarray]) -> Arrays:
        """Runs every stage once."""
        ...

    def stream(self, runs: Iterable[Mapping[str, np.ndarray]]) -> Iterator[Arrays]:
        """The outputs of many runs, in order; packing and unpacking happen while the engine executes."""
        ...

    def close(self) -> None:
        """Gives every stage back."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Closes."""
        ...


class Device(Protocol):
    """Something that runs engine programs."""

    @property
    def info(self) -> DeviceInfo:
        """Name, chip and a description."""
        ...

    def allocate(self, size: int) -> np.ndarray:
        """Zeroed device memory of `size` bytes, as a uint8 array."""
        ...

    @overload
    def load(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None = None) -> Executable: ...

    @overload
    def load(self, program: LoadableModel, buffers: Mapping[str, np.ndarray] | None = None) -> LoadedModel: ...

    def load(self, program: Program | Verified | LoadableModel,
             buffers: Mapping[str, np.ndarray] | None = None) -> Executable | LoadedModel:
        """Prepares a program or a model to run many times. A model's inputs must have, and its outputs get, the shapes
        and element types the model states. `buffers` is memory from `allocate` for a program's buffers, by name; a
        model takes none, see `bind`.

        What is not `Verified` yet is verified first; VerifyError lists every rule it breaks.
        """
        ...

    def pipeline(self, models: Sequence[LoadableModel], depth: int = 2) -> ModelStream:
        """Loads models to run one after the other, what passes between them kept in device memory where both sides
        lay it out alike; `depth` runs of a stream may wait."""
        ...

    def close(self) -> None:
        """Closes every executable and the device."""
        ...

    def __enter__(self) -> Self:
        """Itself."""
        ...

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 trace: TracebackType | None) -> None:
        """Closes."""
        ...
