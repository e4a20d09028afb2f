"""Jobs on the workers of dask.distributed: those of a scheduler somewhere, or of a cluster on this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from openane.errors import AneError, DeviceUnavailable
from openane.farm.actions import results_of
from openane.farm.job import FarmJob, Result

if TYPE_CHECKING:
    from distributed import Client

LOST = "WorkerLost"
"""The type of error of a model whose workers were lost again and again."""
LOSSES = 5
"""Workers that may be lost with a job before it is taken for the cause."""
SECONDS = 30
"""How long a scheduler may take to answer."""


def spread(jobs: Sequence[FarmJob], workers: int,
           scheduler: str | None = None) -> Iterator[tuple[FarmJob, list[Result]]]:
    """Every job with its results, in the order in which they are known. A job whose worker is lost is done by another.
    `workers` processes are started here unless there is a `scheduler` (an address as `tcp://HOST:8786`); none at all
    does everything in this process. AneError where the scheduler is lost; DeviceUnavailable without dask."""
    if workers == 0 and scheduler is None:
        yield from ((job, results_of(job)) for job in jobs)
        return
    with _client(workers, scheduler) as client:
        from distributed import CancelledError, KilledWorker, as_completed

        futures = {client.submit(results_of, job, key="-".join((job.key, *job.actions)), pure=False): job
                   for job in jobs}
        for future in as_completed(futures):
            job = futures.pop(future)
            try:
                results = future.result()
            except KilledWorker:  # its text names workers, which has no part in a report
                results = [Result(action, {}, LOST, "worker after worker was lost with it") for action in job.actions]
            except (OSError, CancelledError) as error:
                raise AneError(f"the scheduler was lost: {error}") from None
            yield job, results


@contextmanager
def _client(workers: int, scheduler: str | None) -> Iterator[Client]:
    """A client of the scheduler, or of a new cluster on this machine."""
    try:
        import dask
        from distributed import Client, LocalCluster
        from distributed.security import Security
    except ImportError:
        raise DeviceUnavailable("a farm's workers are run by dask.distributed, which is missing",
                                "pip install 'openane[farm]', or do everything in this process: --workers 0") from None
    with ExitStack() as open_now:
        if scheduler is not None:
            try:
                client = Client(scheduler, timeout=SECONDS)
            except (OSError, ValueError) as error:
                raise AneError(f"there is no scheduler at {scheduler}: {error}") from None
        else:
            open_now.enter_context(dask.config.set({"distributed.scheduler.allowed-failures": LOSSES}))
            security = Security.temporary()  # nobody else on this machine may give the workers something to do
            try:
                cluster = LocalCluster(n_workers=workers, threads_per_worker=1, memory_limit=None, host="127.0.0.1",
                                       dashboard_address=None, security=security, silence_logs=logging.CRITICAL)
            except (OSError, RuntimeError) as error:
                raise DeviceUnavailable(f"workers do not start here: {error}",
                                        "do everything in this process: --workers 0") from None
            client = Client(open_now.enter_context(cluster), security=security)
        yield open_now.enter_context(client)
