"""What every task of a model stores while its programs run in the simulator, and which tensors of the model that is.

The compiler says where tensors are (compiler.intermediates); what each task leaves is copied there, unchanged. Tensors
inside of a task are never stored.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from openane.checking.numbers import Array
from openane.compiler.inspect.intermediates import Intermediates, Whereabouts
from openane.devices.executable import BufferExecutable
from openane.devices.simulator import SimulatorDevice, SimulatorExecutable
from openane.errors import UnsupportedError
from openane.graph import Value
from openane.ops.lowering import Tensor
from openane.program import Program
from openane.program.verify import Verified
from openane.simulator import RunReport
from openane.simulator.arithmetic.half import decoded
from openane.simulator.memory import ELEMENT, view


@dataclass(slots=True)
class Kept:
    """The virtual buffers of one program, which of their bytes some task wrote, and which tasks stored infinities."""

    places: Whereabouts
    bytes: dict[int, np.ndarray] = field(default_factory=dict)
    written: dict[int, np.ndarray] = field(default_factory=dict)
    infinite: set[int] = field(default_factory=set)

    def take(self, task: int, array: np.ndarray) -> None:
        """What a task left."""
        access = self.places.results[task]
        if array.dtype == np.uint16 and np.isinf(array.view(np.float16)).any():
            self.infinite.add(task)
        if access.shape != array.shape or ELEMENT[access.dtype] != array.dtype:
            return
        for stores, values in ((self.bytes, array), (self.written, np.full((), -1).astype(array.dtype))):
            store = stores.setdefault(access.slot, np.zeros(self.places.sizes[access.slot], np.uint8))
            operand = view(access, store)
            operand.array[...] = values
            operand.store()

    def tensor(self, value: Value) -> Array | None:
        """The value as float64, or None where no task stored all of it."""
        tensor = self.places.tensors.get(id(value))
        if tensor is None or tensor.slot not in self.bytes or not _elements(tensor, self.written[tensor.slot]).all():
            return None
        raw = _elements(tensor, self.bytes[tensor.slot])
        numbers = decoded(raw) if raw.dtype == np.uint16 else raw
        return numbers.astype(np.float64).reshape(value.shape)


class WatchedSimulator(SimulatorDevice):
    """Keeps what every task stores while it runs a model."""

    def __init__(self, known: Intermediates, like: SimulatorDevice) -> None:
        super().__init__(*like.settings)
        self.kept = [Kept(places) for places in known.programs]
        self._waiting = list(self.kept)

    def prepare(self, program: Program | Verified, buffers: Mapping[str, np.ndarray] | None) -> BufferExecutable:
        """See `ProgramDevice.prepare`. Equal programs are taken in order; others are not watched."""
        plain = program.program if isinstance(program, Verified) else program
        kept = next((each for each in self._waiting if same(each.places.program, plain)), None)
        if kept is None:
            return super().prepare(program, buffers)
        self._waiting = [each for each in self._waiting if each is not kept]
        return _Watched(kept, plain, self._arithmetic, buffers)

    def found(self, asked: str) -> list[Kept]:
        """What was kept. UnsupportedError where a program the compiler makes now was not among those loaded."""
        if self._waiting:
            raise UnsupportedError(asked, "the tensors of a model are known where it is compiled by this version",
                                   found=f"program {self._waiting[0].places.program.name!r} is another",
                                   remedy="compile the model again, or look at the file it is made of")
        return self.kept


class _Watched(SimulatorExecutable):
    def __init__(self, kept: Kept, program: Program, arithmetic: str,
                 buffers: Mapping[str, np.ndarray] | None) -> None:
        super().__init__(program, arithmetic, buffers)
        self._kept = kept

    def execute_buffers(self) -> RunReport:
        """See `BufferExecutable.execute_buffers`."""
        return self.loaded.run(seen=self._kept.take)


def same(first: Program, second: Program) -> bool:
    """Whether two programs are the same words and constants."""
    if first.kernel_starts != second.kernel_starts:
        return False
    return first.constants == second.constants and [t.words for t in first.tasks] == [t.words for t in second.tasks]


def _elements(tensor: Tensor, store: np.ndarray) -> np.ndarray:
    """A tensor's raw elements in a buffer, in its own shape."""
    kind = ELEMENT[tensor.dtype]
    return np.ascontiguousarray(np.ndarray(tensor.shape, kind, store.data, tensor.offset, tensor.strides))
