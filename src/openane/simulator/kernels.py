"""When compiled loops are taken, and how arrays are described to them.

Where their machine code was kept by an earlier process, loops are used from the first run of a program that is not
small. Compiling them takes some twenty seconds, so that otherwise a program is run by numpy until its runs have taken a
while. Both give the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, replace
from functools import cache

import numpy as np

from openane.machine_code import machine
from openane.machine_code.laying import LOOPS
from openane.machine_code.patience import WEIGHTS
from openane.machine_code.records import Sequencer
from openane.record_classes import dataclass
from openane.simulator.compiled import columns, loops, packed, planar, reducing, windows

PATIENCE = 0.5
"""Seconds of runs after which loops that were not kept are compiled."""
SOON = 0.05
MANY = 1 << 29
"""Seconds of runs after which loops that were kept are brought, and products of a program that is worth it at once:
bringing them takes as long as they save there."""
NEUTRAL = -0.0
"""What changes no number that it is added to, not even the sign of a zero."""


@dataclass(frozen=True, slots=True)
class Kernels:
    """The compiled loops; see the modules of `compiled`."""

    load: Callable[..., tuple[int, int]]
    gather: Callable[..., bool]
    store: Callable[..., tuple[int, int, int]]
    store_doubles: Callable[..., tuple[int, int, int]]
    channels: Callable[..., tuple[bool, int, int, int]]
    planar: Callable[..., tuple[int, int, int, int, int]]
    translate: Callable[..., tuple[int, int, int, int, int]]
    pool: Callable[..., tuple[int, int, int, int, int]]
    reduce: Callable[..., None]
    finish: Callable[..., tuple[int, int, int]]
    packed: Callable[..., int]
    columns: Callable[..., bool]
    sequencer: Sequencer | None = None


_LOOPS = (loops.LOAD, loops.GATHER, loops.STORE, loops.STORE_DOUBLES, windows.CHANNEL, planar.PLANAR, planar.TRANSLATE,
          windows.POOL, reducing.REDUCE, reducing.FINISH, packed.PACKED, columns.COLUMNS)
NUMBERS = {field.name: number for number, field in enumerate(fields(Kernels)[:len(_LOOPS)])}
"""The place of each among the loops, which are in the order of `Kernels`."""


@cache
def kernels() -> Kernels | None:
    """Brings the compiled loops; None where numba is not installed."""
    found = _kept()
    if found is not None:
        return found
    try:
        made = _named(machine.functions(_LOOPS, "the simulator's loops"))
        machine.functions(LOOPS, WEIGHTS)  # kept for the compiler, which waits long before it compiles them
    except ImportError:
        return None
    return made


def at_hand() -> bool:
    """Whether bringing them takes no time."""
    return _kept() is not None


@cache
def _kept() -> Kernels | None:
    """The loops whose code was kept."""
    try:
        found = machine.kept(_LOOPS)
    except ImportError:
        return None
    return None if found is None else _named(found)


def _named(functions: machine.Functions) -> Kernels:
    return replace(Kernels(*functions), sequencer=functions.sequencer)


def worth(spent: float, products: int) -> bool:
    """Whether loops are to be used by a program with so many products, whose runs have taken so many seconds."""
    if kernels.cache_info().currsize:
        return True
    if spent >= PATIENCE:
        return not _made_elsewhere()
    return (spent >= SOON or products >= MANY) and at_hand()


def _made_elsewhere() -> bool:
    """Whether another process compiles them just now: numpy goes on until they are there."""
    try:
        return machine.is_made_elsewhere(_LOOPS)
    except ImportError:
        return False


@dataclass(frozen=True, slots=True)
class Flat:
    """The memory an array of up to five dimensions lies in, as one run of elements from its first one to its last, and
    its strides in elements."""

    elements: np.ndarray
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    owner: np.ndarray

    @staticmethod
    def of(array: np.ndarray, shape: Sequence[int] | None = None) -> Flat | None:
        """None where an array has no such form: it is empty, runs backwards or lies at odd addresses. With `shape` the
        array broadcast to it."""
        view = array if shape is None else np.broadcast_to(array, shape)
        size = array.itemsize
        if not view.size or array.ctypes.data % size or any(s < 0 or s % size for s in view.strides):
            return None
        strides = [s // size if extent > 1 else 0 for s, extent in zip(view.strides, view.shape, strict=True)]
        reach = 1 + sum(s * (extent - 1) for s, extent in zip(strides, view.shape, strict=True))
        held = np.ctypeslib.as_array((_C[array.dtype.str] * reach).from_address(array.ctypes.data))
        lead = (1,) * (5 - view.ndim)
        return Flat(held.view(array.dtype), (*lead, *view.shape), (*(0 * e for e in lead), *strides), array)


_C = {np.dtype(kind).str: np.ctypeslib.as_ctypes_type(kind) for kind in (np.uint16, np.float32)}


def placed(shape: Sequence[int], *strides: Sequence[int], apart: int = 0) -> np.ndarray:
    """Five extents and the strides of every operand, as loops take them, with neighbouring dimensions merged into the
    last where all of them allow it; the first `apart` stay as they are."""
    extents, steps = list(shape), [list(each) for each in strides]
    inner = len(extents) - 1
    for axis in range(inner - 1, apart - 1, -1):
        if extents[axis] == 1:
            continue
        if extents[inner] == 1:
            for each in steps:
                each[inner] = each[axis]
        elif any(each[axis] != each[inner] * extents[inner] for each in steps):
            break
        extents[inner] *= extents[axis]
        extents[axis] = 1
    return np.array([*extents, *(step for each in steps for step in each)], np.int64)


def contiguous(shape: Sequence[int]) -> tuple[int, ...]:
    """Strides in elements of an array in one run of memory."""
    strides = [1]
    for extent in reversed(shape[1:]):
        strides.append(strides[-1] * extent)
    return tuple(reversed(strides))
