"""What every device offers: info, allocate, load, close; and what it loads: bind, run, submit, patch, close."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from types import TracebackType
from typing import Protocol, Self

import numpy as np

from openane.program import Program
from openane.program.verify import Verified
from openane.simulator import RunReport

Arrays = dict[str, np.ndarray]
Index = tuple[int | slice, ...]


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a device says about itself."""

    name: str
    chip: str
    description: str


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


class CompiledModel(Protocol):
    """What a device needs of a compiled model (`openane.compiler.Model` is one)."""

    @property
    def program(self) -> Program:
        """The only engine program."""
        ...

    @property
    def inputs(self) -> Sequence[ModelPort]:
        """Inputs in the model's order."""
        ...

    @property
    def outputs(self) -> Sequence[ModelPort]:
        """Outputs in the model's order."""
        ...


class Executable(Protocol):
    """A program on a device. Buffers other than inputs and outputs keep their contents between runs."""

    @property
    def report(self) -> RunReport:
        """About the last run; empty before the first."""
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

    def submit(self, inputs: Mapping[str, np.ndarray]) -> Future[Arrays]:
        """The same without waiting; submissions run in order."""
        ...

    def patch(self, name: str, values: np.ndarray, index: Index = ()) -> None:
        """Writes `values` into part of a buffer's tensor; `index` selects it in N, C, D, H, W, as in numpy."""
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


class Device(Protocol):
    """Something that runs engine programs."""

    @property
    def info(self) -> DeviceInfo:
        """Name, chip and a description."""
        ...

    def allocate(self, size: int) -> np.ndarray:
        """Zeroed device memory of `size` bytes, as a uint8 array."""
        ...

    def load(self, program: Program | Verified | CompiledModel) -> Executable:
        """Prepares a program, or the program of a model, to run many times. A model's inputs must have, and its
        outputs get, the shapes and element types the model states.

        What is not `Verified` yet is verified first; VerifyError lists every rule it breaks.
        """
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
