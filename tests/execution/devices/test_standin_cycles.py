"""Every failure of the stand-in over many cycles: the right error each time, and nothing left.

Runs fail a thousand times; loading, which writes files, $OPENANE_CYCLES times (default 20).
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from support.standin import weighted_sum

from openane.devices.macos.routes import LoadedGraph, RouteOptions, RunFacts, RuntimeRoute, open_route
from openane.devices.macos.standin import SimulatedSymbols
from openane.errors import AneError, BudgetExhausted, DeviceChanged, DeviceError, DeviceRejected, SubmitFailed

CYCLES = int(os.environ.get("OPENANE_CYCLES", "20"))
RUNS = 1000
REQUEST = "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:"

LOADING: tuple[tuple[str, str, type[AneError]], ...] = (
    ("memory", "compile=failed", DeviceRejected), ("memory", "compile=invalid", DeviceRejected),
    ("memory", "load", DeviceRejected), ("memory", "budget=0", DeviceRejected),
    ("memory", "nil=modelWithMILText:weights:optionsPlist:", DeviceRejected),
    ("memory", "nil=inMemoryModelWithDescriptor:", DeviceRejected),
    ("memory", "nil=hexStringIdentifier+localModelPath", DeviceChanged),
    ("memory", "nil=IOSurfaceCreate", DeviceError), ("memory", "nil=objectWithIOSurface:", DeviceChanged),
    ("memory", f"nil={REQUEST}", DeviceChanged), ("memory", "no-attributes", DeviceRejected),
    ("e5rt", "compile=failed", DeviceRejected), ("e5rt", "compile=invalid", DeviceRejected),
    ("e5rt", "load", DeviceRejected), ("e5rt", "budget=0", DeviceRejected),
    ("e5rt", "nil=e5rt_buffer_object_get_data_ptr", DeviceRejected),
)
OPENING = (
    "missing-class=_ANEInMemoryModel", "missing-class=_ANERequest", "missing-selector=unloadWithQoS:error:",
    "missing-selector=inMemoryModelWithDescriptor:", "encoding=evaluateWithQoS:options:request:error:",
    f"encoding={REQUEST}", "missing-function=objc_msgSend", "missing-function=IOSurfaceLock",
)
RUNNING = (("memory", "evaluate=0x1d", 0x1D), ("memory", "evaluate=0xc", 0xC), ("memory", "lock", 0),
           ("memory", "nil=IOSurfaceGetBaseAddress", 0), ("e5rt", "evaluate=0x1d", 0x1D))


@pytest.fixture(autouse=True)
def nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directories of models are made here; neither they nor descriptors may be left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    before = descriptors()
    yield tmp_path
    assert list(tmp_path.iterdir()) == []
    assert descriptors() == before


def descriptors() -> int:
    """Open files of this process, where the system tells."""
    folder = Path("/proc/self/fd")
    return len(os.listdir(folder)) if folder.is_dir() else 0


def opened(route: str, inject: str) -> tuple[SimulatedSymbols, RuntimeRoute]:
    """A route over the stand-in."""
    symbols = SimulatedSymbols(inject)
    return symbols, open_route(symbols, RouteOptions(route=route))


@pytest.mark.parametrize(("route", "inject", "error"), LOADING)
def test_loading_fails(route: str, inject: str, error: type[AneError]) -> None:
    for start in range(0, CYCLES, 100):  # as many as a process may compile
        symbols, opening = opened(route, inject)
        for _ in range(min(100, CYCLES - start)):
            with pytest.raises(error) as raised:
                opening.load(weighted_sum())
            assert type(raised.value) is error
        opening.close()
        assert symbols.problems() == ()


@pytest.mark.parametrize("inject", OPENING)
def test_opening_fails(inject: str) -> None:
    for _ in range(CYCLES):
        with pytest.raises(DeviceChanged, match=inject.partition("=")[2]):
            opened("memory", inject)


@pytest.mark.parametrize(("route", "inject", "status"), RUNNING)
def test_runs_fail(route: str, inject: str, status: int) -> None:
    symbols, opening = opened(route, inject)
    loaded = opening.load(weighted_sum())
    inputs = {name: np.ones((3, 8), np.float16) for name in "abc"}
    outputs = {"y": np.zeros((3, 8), np.float16)}
    for _ in range(RUNS):
        with pytest.raises(SubmitFailed) as failed:
            loaded.run(inputs, outputs)
        assert not status or f"status={status:#x}" in str(failed.value)
    opening.close()
    assert symbols.problems() == ()


@pytest.mark.parametrize("route", ["memory", "e5rt"])
def test_models_come_and_go(route: str) -> None:
    symbols, opening = opened(route, "")
    for _ in range(min(CYCLES, 100)):
        opening.load(weighted_sum()).close()
    if CYCLES >= 100:
        with pytest.raises(BudgetExhausted):
            opening.load(weighted_sum())
    opening.close()
    assert symbols.problems() == ()


def right(loaded: LoadedGraph, seed: int, columns: int = 8) -> RunFacts:
    """One run with the right output."""
    a, b, c = np.random.default_rng(seed).integers(-8, 8, (3, 3, columns)).astype(np.float16)
    found = np.zeros((3, columns), np.float16)
    facts = loaded.run({"a": a, "b": b, "c": c}, {"y": found})
    np.testing.assert_array_equal(found, a * b - c + np.arange(columns, dtype=np.float16))
    return facts


@pytest.mark.parametrize("inject", ["row-alignment=2", "row-alignment=4096", "row-alignment=48"])
def test_surfaces_are_sized_and_packed_by_the_models_own_strides(inject: str) -> None:
    symbols, opening = opened("memory", inject)
    for columns in (1, 7, 8, 40):
        right(opening.load(weighted_sum(columns=columns)), columns, columns)
    opening.close()
    assert symbols.problems() == ()


@pytest.mark.parametrize(("inject", "told"), [("", False), ("statistics", True)])
def test_the_engines_own_time_is_told_where_there_is_one(inject: str, told: bool) -> None:
    symbols, opening = opened("memory", inject)
    facts = right(opening.load(weighted_sum()), 1)
    opening.close()
    assert (facts.hardware_seconds is not None) is told
    assert symbols.problems() == ()


@pytest.mark.parametrize(("route", "path"), [("memory", 1), ("memory", 3), ("e5rt", 1)])
def test_threads_share_a_runtime(route: str, path: int) -> None:
    symbols = SimulatedSymbols()
    opening = open_route(symbols, RouteOptions(route=route, path=path))
    shared = opening.load(weighted_sum())

    def work(number: int) -> None:
        own = opening.load(weighted_sum(columns=8 + number))
        for turn in range(25):
            right(shared, turn)
            right(own, turn, 8 + number)
        own.close()

    with ThreadPoolExecutor(8) as threads:
        for done in [threads.submit(work, number) for number in range(8)]:
            done.result(timeout=60)
    opening.close()
    assert symbols.problems() == ()
