"""Training on several machines: each rank computes its part of every batch, and gradients are summed in the order of
the ranks, so that all of them move their weights alike.

Message passing is MPI's (mpi4py, the extra `mpi`). Ranks that wait for each other do not wait for ever.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from openane.errors import AneError
from openane.version import pip_line

BLOCK = 1 << 20
"""Elements summed at a time: what gathering them needs is a multiple of this."""
POLL = 0.0005
SIZES = ("OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
"""Variables by which mpirun of Open MPI, of MPICH and its relatives, and srun tell a program how many there are."""
NAMESPACE = "PMIX_NAMESPACE"
"""The variable by which a PMIx launcher (prterun, srun --mpi=pmix) is known; it does not say how many there are."""


class RankLost(AneError):
    """A rank that does not answer."""


class RankGroup(Protocol):
    """The ranks of a training."""

    @property
    def rank(self) -> int:
        """This one's number."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def sum(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Arrays of one name and shape added up over all ranks, in their order. fp64 in, fp64 out. RankLost."""
        ...

    def share(self, value: Any) -> list[Any]:
        """What every rank has given, in their order. RankLost."""
        ...

    def abort(self, message: str) -> None:
        """Ends the other ranks too, where there are any."""
        ...


class Alone:
    """One rank."""

    rank, size = 0, 1

    def sum(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `RankGroup.sum`."""
        return dict(arrays)

    def share(self, value: Any) -> list[Any]:
        """See `RankGroup.share`."""
        return [value]

    def abort(self, message: str) -> None:
        """See `RankGroup.abort`."""


class Ranks:
    """The ranks mpirun has started."""

    def __init__(self, timeout: float) -> None:
        """`timeout`: seconds to wait for the others. AneError where mpi4py is missing."""
        try:
            from mpi4py import MPI
        except ImportError:
            raise AneError("a launcher of several ranks has started this, and mpi4py is not installed: "
                           f"{pip_line('mpi')}") from None
        self._mpi, self._timeout = MPI, timeout
        self._world = MPI.COMM_WORLD
        self.rank, self.size = self._world.Get_rank(), self._world.Get_size()

    def sum(self, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
        """See `RankGroup.sum`."""
        flat = np.concatenate([np.ravel(array).astype(np.float64, copy=False) for array in arrays.values()])
        for start in range(0, flat.size, BLOCK):
            own = np.ascontiguousarray(flat[start:start + BLOCK])
            gathered = np.empty((self.size, own.size))
            self._wait(self._world.Iallgather(own, gathered), "gradients")
            total = gathered[0]
            for other in gathered[1:]:
                total = total + other
            flat[start:start + BLOCK] = total
        result, place = {}, 0
        for name, array in arrays.items():
            result[name] = flat[place:place + array.size].reshape(array.shape)
            place += array.size
        return result

    def share(self, value: Any) -> list[Any]:
        """See `RankGroup.share`."""
        self._wait(self._world.Ibarrier(), "an answer")
        found: list[Any] = self._world.allgather(value)
        return found

    def abort(self, message: str) -> None:
        """See `RankGroup.abort`."""
        self._world.Abort(1)

    def _wait(self, request: Any, what: str) -> None:
        """Waits without keeping a processor busy. RankLost when it takes too long."""
        limit = time.monotonic() + self._timeout
        while not request.Test():
            if time.monotonic() > limit:
                raise RankLost(f"rank {self.rank} of {self.size} has waited {self._timeout:g} s for {what} of the "
                               "others: one is lost or much slower\nhint: start the same command with --resume; it "
                               "goes on from the last checkpoint, on any number of ranks that divides the batch")
            time.sleep(POLL)


def launched() -> bool:
    """Whether mpirun, srun or a PMIx launcher may have started this process as one of several."""
    return NAMESPACE in os.environ or _stated() != "1"


def _stated() -> str:
    """The count of ranks the environment states, "1" where it states none."""
    return next((stated for name in SIZES if (stated := os.environ.get(name, "1")) != "1"), "1")


def open_group(timeout: float) -> RankGroup:
    """The ranks of this training: those that MPI knows, or one. AneError where mpi4py is missing, or several were
    started and MPI knows of one alone: each would train by itself."""
    if not launched():
        return Alone()
    ranks = Ranks(timeout)
    if ranks.size > 1:
        return ranks
    if (stated := _stated()) != "1":
        raise AneError(f"{stated} ranks were started, and MPI knows of one: its library and the launcher do not fit "
                       "each other\nhint: srun --mpi=pmix, or the mpirun of the library mpi4py was built with; srun -n "
                       "1 for one rank")
    return Alone()
