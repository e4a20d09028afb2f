"""A simulated driver that several processes and threads share, and what it takes from strangers and the dead."""

from __future__ import annotations

import errno
import os
import random
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.driver_client import Client, leftovers, program
from support.driver_worker import check_runs
from support.killing import ENVIRONMENT, run_and_kill

from openane.devices.linux import interface
from openane.devices.linux.interface import BufferInit
from openane.devices.simdriver import DriverError, DriverServer, LeakReport, SimDriver, SimKernel, SocketKernel
from openane.devices.simdriver.driver import MODES, PAGE
from openane.devices.simdriver.messages import FAMILY, LONGEST, TYPE, Action, DriverRequest
from openane.errors import DeviceError

THREADS, PROCESSES = 8, 4
SOAK = bool(os.environ.get("OPENANE_SOAK"))
RUNS = 10_000 if SOAK else 240
"""Of all threads and processes together."""


@pytest.fixture(params=MODES)
def driver(request: pytest.FixtureRequest) -> Iterator[SimDriver]:
    with SimDriver(request.param) as opened:
        yield opened


def worker(path: Path, runs: int, seed: int) -> list[str]:
    return [sys.executable, "-m", "support.driver_worker", str(path), str(runs), str(seed)]


def until(condition: object, seconds: float = 10) -> bool:
    """Waits for something another thread or process does."""
    end = time.monotonic() + seconds
    while not (met := condition()) and time.monotonic() < end:  # type: ignore[operator]
        time.sleep(0.005)
    return bool(met)


@pytest.mark.parametrize("mode", MODES if SOAK else ["strict"])
def test_threads_and_processes_share_a_device(mode: str, tmp_path: Path) -> None:
    before = leftovers()
    with SimDriver(mode) as driver:
        share_device(driver, tmp_path / "driver")
    assert leftovers() == before


def share_device(driver: SimDriver, path: Path) -> None:
    """Threads, some in this process and some over the socket, and processes: every answer is checked."""
    share = -(-RUNS // (THREADS + PROCESSES))
    with DriverServer(driver, path), ThreadPoolExecutor(THREADS) as threads:
        processes = [subprocess.Popen(worker(path, share, seed), env=ENVIRONMENT, stdout=subprocess.PIPE)
                     for seed in range(PROCESSES)]
        for process in processes:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
        kernels = [SocketKernel(path) if index % 2 else SimKernel(driver) for index in range(THREADS)]
        wrong = list(threads.map(check_runs, kernels, [share] * THREADS, range(100, 100 + THREADS)))
        for process in processes:
            assert process.wait(60) == 0
            assert process.stdout is not None
            process.stdout.close()
    assert wrong == [0] * THREADS
    assert driver.submissions == share * (THREADS + PROCESSES)
    assert (driver.used, driver.reports, driver.files) == (0, (), ())
    assert not path.exists()


def test_killed_clients_take_nothing_from_the_others(tmp_path: Path) -> None:
    with SimDriver("strict") as driver:
        kill_clients(driver, tmp_path / "driver")
        assert until(lambda: not driver.files)
        assert driver.used == 0


def kill_clients(driver: SimDriver, path: Path) -> None:
    """Two of four clients die in the middle of their runs; the other two go on with right answers."""
    stop = threading.Event()

    def survivor(seed: int) -> int:
        wrong = 0
        while not stop.is_set():
            wrong += check_runs(SocketKernel(path), 20, seed)
        return wrong

    with DriverServer(driver, path) as server, ThreadPoolExecutor(2) as threads:
        survivors = [threads.submit(survivor, seed) for seed in range(2)]
        try:
            run_and_kill([worker(path, 0, seed) for seed in range(2)], random.Random(4), 0.1, "an answer was wrong")
        finally:
            stop.set()
        assert [survivor.result() for survivor in survivors] == [0, 0]
        assert until(lambda: not server.clients)
    leaks = [report for report in driver.reports if isinstance(report, LeakReport)]
    assert len(leaks) == len({report.client for report in leaks}) <= 2  # one may die between two files
    assert os.getpid() not in {report.client for report in leaks}


def test_clients_that_go_without_a_word(driver: SimDriver, tmp_path: Path) -> None:
    with DriverServer(driver, tmp_path / "driver") as server:
        client = Client(SocketKernel(tmp_path / "driver"), program())
        client.close(frees=False)
        assert until(lambda: not server.clients)
    assert [type(report) for report in driver.reports] == [LeakReport]
    assert driver.used == (0 if driver.strict else 5 * PAGE)


def test_errors_reach_the_client_as_they_are(driver: SimDriver, tmp_path: Path) -> None:
    before = leftovers()
    with DriverServer(driver, tmp_path / "driver"):
        kernel = SocketKernel(tmp_path / "driver")
        assert kernel.nodes() == SimKernel(driver).nodes()
        client = Client(kernel, program())
        assert kernel.version(client.fd) == driver.version
        for name in ("SUBMIT", "MAP", "BO_INIT", "OPEN", "VERSION"):
            driver.inject(name, errno.ENOMEM)
        for call in (client.submit, lambda: kernel.map(client.fd, 1, 1), lambda: client.allocate("more", 1),
                     lambda: kernel.open(kernel.nodes()[0]), lambda: kernel.version(client.fd)):
            with pytest.raises(DriverError, match="injected") as failed:
                call()  # type: ignore[operator]
            assert failed.value.errno == errno.ENOMEM
        for code, request, size in ((errno.ENOTTY, 1, 8), (errno.EFAULT, interface.SUBMIT, 8),
                                    (errno.EFAULT, interface.SUBMIT, 1 << 20)):
            with pytest.raises(DriverError) as failed:
                kernel.ioctl(client.fd, request, bytearray(size))
            assert failed.value.errno == code
        for length, offset in ((1, 1 << 70), (-1, 0), (1 << 63, 0), (1, -1)):
            with pytest.raises(DriverError) as failed:
                kernel.map(client.fd, length, offset)
            assert failed.value.errno == errno.EINVAL
        client.submit()
        client.close()
        for call in (kernel.close, kernel.version):
            with pytest.raises(DriverError):
                call(client.fd)
        with pytest.raises(DriverError, match="there is no /dev/null"):
            kernel.open("/dev/null")
    assert leftovers() == before


def strange_messages(count: int) -> Iterator[bytes]:
    rng = random.Random(8)
    for _ in range(count):
        number = rng.choice((interface.BO_FREE, interface.SUBMIT, interface.DRM_VERSION, rng.getrandbits(32)))
        head = bytes(DriverRequest(rng.choice((*Action, rng.getrandbits(32))), number, rng.getrandbits(64),
                                   rng.getrandbits(64)).pack())
        body = rng.randbytes(rng.choice((8, 24, 64, 152, rng.randrange(LONGEST))))
        yield rng.choice((head + body, rng.randbytes(rng.randrange(1, 4 * LONGEST)), head[:rng.randrange(1, 24)]))


def test_strange_messages_get_errors(driver: SimDriver, tmp_path: Path) -> None:
    path = tmp_path / "driver"
    with DriverServer(driver, path) as server:
        with socket.socket(FAMILY, TYPE) as stranger:
            stranger.connect(str(path))
            stranger.recv(LONGEST)
            for message in strange_messages(300):
                stranger.send(message)
                assert len(stranger.recv(LONGEST)) >= 8
            argument = BufferInit(size=(1 << 64) - PAGE).pack()
            stranger.send(bytes(DriverRequest(Action.IOCTL, interface.BO_INIT).pack()) + argument)
            assert int.from_bytes(stranger.recv(LONGEST)[:4], "little") == errno.ENOMEM
        with socket.socket(FAMILY, TYPE) as rude:
            rude.connect(str(path))  # and goes without a word
        client = Client(SocketKernel(path), program())
        client.submit()
        client.close()
        assert until(lambda: not server.clients)
    assert driver.used == 0


def test_a_server_that_goes_first(driver: SimDriver, tmp_path: Path) -> None:
    before = leftovers()
    path = tmp_path / "driver"
    with DriverServer(driver, path) as server:
        client = Client(SocketKernel(path), program())
        server.close()
        server.close()
    with pytest.raises(DriverError) as failed:
        client.submit()
    assert failed.value.errno == errno.ENODEV
    client.close_all()
    with pytest.raises(FileNotFoundError):
        SocketKernel(path).open(SocketKernel(path).nodes()[0])
    driver.close()
    descriptors, mapped, threads = leftovers()
    assert (descriptors, mapped, threads) == (before[0], 0, before[2])


def test_places_where_nothing_can_be_served(driver: SimDriver, tmp_path: Path) -> None:
    with DriverServer(driver, tmp_path / "driver"):
        with pytest.raises(DeviceError, match="remove it if no server runs there"):
            DriverServer(driver, tmp_path / "driver")
        assert (tmp_path / "driver").stat().st_mode % 0o1000 == 0o600
    for path in (tmp_path / "none" / "driver", tmp_path / ("long" * 60)):
        with pytest.raises(DeviceError, match="no socket can be made"):
            DriverServer(driver, path)
    driver.close()
    with DriverServer(driver, tmp_path / "driver"), pytest.raises(DriverError) as failed:
        SocketKernel(tmp_path / "driver").open(interface.NODE.format(0))
    assert failed.value.errno == errno.ENODEV
