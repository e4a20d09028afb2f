"""Jobs on the workers of dask.distributed: those of a scheduler somewhere, or of a cluster on this machine."""

from __future__ import annotations

import logging
import warnings
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING

from openane.errors import AneError, DeviceUnavailable
from openane.farm.actions import results_of
from openane.farm.files import LARGEST_SENT, Files, is_here, readable
from openane.farm.interrupted import uninterrupted
from openane.farm.job import FarmJob, Result
from openane.version import pip_line

if TYPE_CHECKING:
    from distributed import Client, Future

LOST = "WorkerLost"
"""The type of error of a model whose workers were lost again and again."""
LOSSES = 5
"""Workers that may be lost with a job before it is taken for the cause."""
SECONDS = 30
"""How long a scheduler may take to answer."""


def spread(jobs: Sequence[FarmJob], workers: int,
           scheduler: str | None = None) -> Iterator[tuple[FarmJob, list[Result]]]:
    """Every job with its results, in the order in which they are known. A job whose worker is lost is done by another;
    a worker that does not see a job's model is sent its files. `workers` processes are started here unless there is a
    `scheduler` (an address as `tcp://HOST:8786`); none at all does everything in this process. AneError where the
    scheduler is lost, has no workers or has some that are not as they must be; DeviceUnavailable without dask."""
    if workers == 0 and scheduler is None:
        yield from ((job, _done_here(job)) for job in jobs)
        return
    with _client(workers, scheduler) as client:
        yield from _Spread(client).results(jobs)


class _Spread:
    """Jobs that are under way, and those whose models are still to be sent."""

    def __init__(self, client: Client) -> None:
        from distributed import as_completed

        self._client = client
        self._ended = as_completed()
        self._under_way: dict[Future, tuple[FarmJob, int]] = {}
        self._to_send: deque[FarmJob] = deque()
        self._lost: set[str] = set()
        """Keys of jobs that took too many workers with them once; the scheduler says how many are too many."""
        self._sent = 0
        """Bytes of models under way."""

    def results(self, jobs: Sequence[FarmJob]) -> Iterator[tuple[FarmJob, list[Result]]]:
        """Every job with its results."""
        for job in jobs:
            self._submit(job)
        for future in self._ended:
            job, size = self._under_way.pop(future)
            self._sent -= size
            results = self._results(job, future)
            if results is not None:
                yield job, results
            yield from self._send()

    def _results(self, job: FarmJob, future: Future) -> list[Result] | None:
        """What became of a job; None for one whose model is to be sent."""
        from distributed import CancelledError, KilledWorker

        try:
            found: list[Result] | None = future.result()
        except KilledWorker:  # its text names workers, which has no part in a report
            if job.key not in self._lost:
                self._lost.add(job.key)
                self._to_send.append(job)
                return None
            return [Result(action, {}, LOST, "worker after worker was lost with it") for action in job.actions]
        except AneError:
            raise
        except (OSError, CancelledError) as error:
            raise AneError(f"the scheduler was lost: {error}") from None
        except Exception as error:  # before a worker is at ours: what is sent cannot be read there
            text = str(error).partition("\n")[0]
            raise AneError(f"the scheduler or a worker cannot take a job ({type(error).__name__}: {text}); install the "
                           "same versions of openane and dask there as here") from None
        if found is None:
            self._to_send.append(job)
        elif lacking := {each.lacks for each in found if each.lacks and find_spec(each.lacks)}:
            raise AneError(f"a worker lacks {', '.join(sorted(lacking))}, which is here: install the same extras of "
                           "openane there")
        return found

    def _send(self) -> Iterator[tuple[FarmJob, list[Result]]]:
        """Sends models with their jobs, as many as may be under way. What is not sent is done here."""
        while self._to_send and self._sent < LARGEST_SENT:
            job = self._to_send.popleft()
            files = readable(job.path) if is_here(job.path, job.digest) else None
            if files is None:
                yield job, _done_here(job)
            else:
                self._submit(job, files)

    def _submit(self, job: FarmJob, files: Files | None = None) -> None:
        size = sum(map(len, files.values())) if files else 0
        times = "again" if job.key in self._lost else "first" if files is None else "sent"
        future = self._client.submit(_by_worker, job, files, key="-".join((job.key, *job.actions, times)), pure=False)
        self._sent += size
        self._under_way[future] = job, size
        self._ended.add(future)


def _by_worker(job: FarmJob, files: Files | None) -> list[Result] | None:
    """What a worker does; it unpacks models in its own folder, which dask clears after a worker that was killed."""
    from distributed import get_worker

    return results_of(job, files, get_worker().local_directory)


def _done_here(job: FarmJob) -> list[Result]:
    results = results_of(job)
    if results is None:
        raise AneError(f"{job.path} is gone, or has changed since the farm began: start it again")
    return results


@contextmanager
def _client(workers: int, scheduler: str | None) -> Iterator[Client]:
    """A client of the scheduler, or of a new cluster on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security
    except ImportError:
        raise DeviceUnavailable("a farm's workers are run by dask.distributed, which is missing",
                                f"{pip_line('farm')}, or do everything in this process: --workers 0") from None
    with ExitStack() as open_now:
        # Models are sent as arguments, of which dask warns: what it holds as data is lost with a worker.
        open_now.enter_context(dask.config.set({"distributed.admin.large-graph-warning-threshold": 2 * LARGEST_SENT}))
        if scheduler is not None:
            try:
                client = Client(scheduler, timeout=SECONDS)
            except (OSError, ValueError) as error:
                raise AneError(f"there is no scheduler at {scheduler}: {error}") from None
            try:
                client.wait_for_workers(1, timeout=SECONDS)
            except TimeoutError:
                client.close()
                raise AneError(f"the scheduler at {scheduler} has no workers: start some with dask worker {scheduler}"
                               ) from None
        else:
            open_now.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": LOSSES}))
            security = Security.temporary()  # nobody else on this machine may give the workers something to do
            try:
                with uninterrupted(), warnings.catch_warnings():  # of the port of another farm's page
                    warnings.filterwarnings("ignore", r"\s*Port \d+ is already in use")
                    cluster = open_now.enter_context(LocalCluster(
                        n_workers=workers, threads_per_worker=1, memory_limit=None, host="127.0.0.1",
                        dashboard_address=None, security=security, silence_logs=logging.CRITICAL,
                        preload=["openane.farm.interrupted"]))
            except (OSError, RuntimeError) as error:
                raise DeviceUnavailable(f"workers do not start here: {error}",
                                        "do everything in this process: --workers 0") from None
            client = Client(cluster, security=security)
        yield open_now.enter_context(client)
