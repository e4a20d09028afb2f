"""The worker that owns the runtime hangs, dies and is used up without harm to its owner.

A worker dies twice in these tests, $OPENANE_CYCLES times where that is set; each takes about a second.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.macos import ONES, device, kept_clean, made, problems

import openane as ane
from openane.compiler import Model
from openane.devices.macos import worker
from openane.devices.protocol import LoadedModel
from openane.errors import BudgetExhausted, DeviceError, DeviceHung, DeviceRejected, SubmitFailed
from openane.graph.mil import parse_mil

DEATHS = int(os.environ.get("OPENANE_CYCLES", "2"))


@pytest.fixture(scope="module")
def model() -> Model:
    return made("mul")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from kept_clean(tmp_path, monkeypatch)


def test_a_worker_that_is_used_up_is_replaced(place: Path, model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "COMPILATIONS", 3)
    other = made("add")
    with ane.open_device(device(place, worker="on")) as opened:
        first, second = opened.load(model), opened.load(other)
        for _ in range(4):
            opened.load(model).close()
        assert (first.run({"x": ONES})["y"] == 2).all()
        assert (second.run({"x": ONES})["y"] == 3).all()
        third = opened.load(model)
        with pytest.raises(BudgetExhausted, match="models loaded at once: 3 of 3"):
            opened.load(model)
        assert (third.run({"x": ONES})["y"] == 2).all()
    assert problems(place) == ""


def test_a_limit_below_the_known_one_is_met_by_a_new_worker(place: Path, model: Model) -> None:
    with ane.open_device(device(place, "budget=2", worker="on")) as opened:
        for _ in range(4):
            with opened.load(model) as executable:
                assert (executable.run({"x": ONES})["y"] == 2).all()
    with ane.open_device(device(place, "compile=failed", worker="on")) as opened:
        for _ in range(2):
            with pytest.raises(DeviceRejected, match="ANECCompile"):
                opened.load(model)


HUNG = ("hang,after=1", DeviceHung, r"a run of model 'main' failed: it did not end within 0.4 s: the worker was killed")
THREW = ("exception,after=1", SubmitFailed, r"the worker ended by SIGABRT: .*uncaught exception 'NSInternal")
CRASHED = ("crash,after=1", SubmitFailed, r"the worker ended by SIG")


@pytest.mark.parametrize(("route", "inject", "kind", "message"), [  # nothing of the route e5rt throws
    ("memory", *HUNG), ("memory", *THREW), ("memory", *CRASHED), ("e5rt", *HUNG), ("e5rt", *CRASHED)])
def test_a_worker_that_hangs_or_dies_comes_back(place: Path, model: Model, route: str, inject: str,
                                                kind: type[DeviceError], message: str) -> None:
    with ane.open_device(device(place, inject, worker="on", route=route, timeout=0.4)) as opened:
        executable = opened.load(model)
        for _ in range(DEATHS):
            assert (executable.run({"x": ONES})["y"] == 2).all()
            with pytest.raises(DeviceError, match=message) as caught:
                executable.run({"x": ONES})
            assert type(caught.value) is kind
            assert not list(place.iterdir())


def test_states_survive_their_worker(place: Path) -> None:
    kind = "tensor<fp16, [1, 8, 1, 16]>"
    model = ane.compile(parse_mil(f"""program(1.3) {{ func main<ios18>({kind} x, state<{kind}> total) {{
        {kind} old = read_state(input = total)[name = string("old")];
        {kind} y = add(x = old, y = x)[name = string("new")];
        write_state(data = y, input = total)[name = string("w")]; }} -> (y); }}"""))
    with ane.open_device(device(place, "crash,after=2", worker="on")) as opened, opened.load(model) as executable:
        found = []
        for _ in range(5):
            try:
                found.append(float(executable.run({"x": ONES})["y"].max()))
            except SubmitFailed:
                found.append(-1)
        assert found == [1, 2, -1, 3, 4]


def test_threads_share_one_worker(place: Path) -> None:
    models = {2: made("mul"), 3: made("add")}
    with ane.open_device(device(place, worker="on")) as opened, ThreadPoolExecutor(4) as threads:
        loaded = [(wanted, opened.load(each)) for wanted, each in models.items() for _ in range(2)]

        def work(wanted: int, executable: LoadedModel) -> bool:
            return all((executable.run({"x": ONES})["y"] == wanted).all() for _ in range(25))

        assert all(threads.map(work, *zip(*(pair for pair in loaded for _ in range(2)), strict=True)))
