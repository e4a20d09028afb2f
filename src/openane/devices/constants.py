"""Which bytes of a program's constants change when it is given others."""

from __future__ import annotations

import numpy as np

from openane.errors import DeviceError
from openane.program import Constants, Program
from openane.program.patch import ByteRange
from openane.program.verify.container import read_only

BLOCK = 1 << 12
"""Bytes that are compared, and written, as one."""
SHARE = 1 << 24
"""Bytes that are compared at a time."""


def differing(before: Constants | np.ndarray, after: Constants | np.ndarray) -> list[ByteRange]:
    """Two sequences of bytes of one size: the ranges of whole blocks that hold all bytes that differ, ascending."""
    found: list[ByteRange] = []
    whole_old, whole_new = (data if isinstance(data, np.ndarray) else np.frombuffer(data, np.uint8)
                            for data in (before, after))
    for base in range(0, whole_old.size, SHARE):
        old, new = whole_old[base:base + SHARE], whole_new[base:base + SHARE]
        whole = old.size // BLOCK * BLOCK
        words = old[:whole].view(np.uint64) != new[:whole].view(np.uint64)
        blocks = np.append(words.reshape(-1, BLOCK // 8).any(1),
                           bool((old[whole:] != new[whole:]).any()))
        edges = np.flatnonzero(np.diff(np.concatenate(([False], blocks, [False])).view(np.int8))) * BLOCK
        for low, high in zip(edges[::2].tolist(), edges[1::2].tolist(), strict=True):
            end = min(base + high, whole_old.size)
            if found and found[-1][1] == base + low:
                found[-1] = found[-1][0], end
            else:
                found.append((base + low, end))
    return found


def require_constants(program: Program, constants: object) -> None:
    """DeviceError unless these can be the program's constants: as many bytes as it has, which nobody writes."""
    if not isinstance(constants, Constants):
        raise DeviceError(f"the constants of program {program.name!r} are bytes, not {type(constants).__name__}")
    if not read_only(constants):
        raise DeviceError(f"the constants of program {program.name!r} are bytes in a row that nobody can write: give "
                          "`bytes` of them")
    if len(constants) != len(program.constants):
        raise DeviceError(f"program {program.name!r} has {len(program.constants)} bytes of constants, not "
                          f"{len(constants)}: tasks name places in them, so that their number stays")


def require_same(loaded: Program, other: Program) -> None:
    """DeviceError unless two programs differ in their constants at most."""
    parts = ("chip", "tasks", "buffers", "kernel_starts")
    what = next((what for what in parts if getattr(loaded, what) != getattr(other, what)), None)
    if what is not None:
        raise DeviceError(f"program {other.name!r} is not the one that is loaded with other constants: its {what} "
                          "differ; load it anew")
