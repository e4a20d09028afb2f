"""Everything the system can refuse or fail at surfaces as the right exception, and nothing of it stays behind."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
from support.macos import ONES, device, kept_clean, made, problems, run

import openane as ane
from openane.compiler import Model
from openane.devices.macos import memory_model, open_kind
from openane.devices.macos.device import require_mac
from openane.devices.macos.graph_program import dialect
from openane.devices.macos.routes import compilations
from openane.devices.macos.symbols import RuntimeSymbols
from openane.errors import (
    BudgetExhausted,
    DeviceChanged,
    DeviceError,
    DeviceRejected,
    DeviceUnavailable,
    SubmitFailed,
    UnsupportedError,
)
from openane.graph import Graph, Node, TensorType, Value


@pytest.fixture(scope="module")
def model() -> Model:
    return made("mul")


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    yield from kept_clean(tmp_path, monkeypatch)


FAILURES = {
    "compile=failed": (DeviceRejected, r"compiler says: .*ANECCompile\(\) FAILED \(com.apple.appleneuralengine 1\)"),
    "compile=invalid": (DeviceRejected, "InvalidMILProgram"),
    "load": (DeviceRejected, "the loader says: .*status=0xf"),
    "evaluate=0x1d": (SubmitFailed, "status=0x1d : Program Inference error; this status is known from surfaces"),
    "evaluate=0x15,after=2": (SubmitFailed, "status=0x15"),
    "lock": (SubmitFailed, "IOSurfaceLock failed"),
    "missing-class=_ANERequest": (DeviceChanged, "class _ANERequest"),
    "missing-selector=compileWithQoS:options:error:": (DeviceChanged, "found no such method"),
    "encoding=evaluateWithQoS:options:request:error:": (DeviceChanged, r"expected B@:I@@\^@, found"),
    "missing-function=IOSurfaceLock": (DeviceChanged, "IOSurfaceLock of IOSurface"),
    "missing-library=AppleNeuralEngine": (DeviceUnavailable, "AppleNeuralEngine"),
    "missing-library=Foundation": (DeviceUnavailable, "Foundation"),
    "nil=modelWithMILText:weights:optionsPlist:": (DeviceRejected, "no descriptor"),
    "nil=inMemoryModelWithDescriptor:": (DeviceRejected, "no in-memory model"),
    "nil=objectWithIOSurface:": (DeviceChanged, "an object around a surface"),
    "nil=requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:":
        (DeviceChanged, "_ANERequest"),
    "nil=IOSurfaceCreate": (DeviceError, "made no surface of 512 bytes"),
    "nil=IOSurfaceGetBaseAddress": (SubmitFailed, "no address"),
    "nil=hexStringIdentifier,missing-selector=localModelPath": (DeviceChanged, "the identifier of _ANEInMemoryModel"),
    "no-attributes": (DeviceRejected, "does not say how it lies in memory"),
    "machine=x86_64": (DeviceUnavailable, "Rosetta"),
}


@pytest.mark.parametrize("inject", FAILURES)
def test_a_failure_has_its_exception_and_leaves_nothing(place: Path, model: Model, inject: str) -> None:
    expected, message = FAILURES[inject]
    for _ in range(8):
        with pytest.raises(DeviceError, match=message) as caught:
            run(device(place, inject), model, 4)
        assert type(caught.value) is expected
    assert problems(place) == ""


@pytest.mark.parametrize("path", [2, 3, 4])
def test_every_path_fails_in_the_same_words(place: Path, model: Model, path: int) -> None:
    with pytest.raises(SubmitFailed, match="status=0x1d"):
        run(device(place, "evaluate", path=path), model)
    missing = {2: "evaluateRealTimeWithModel:options:request:error:", 3: "program", 4: "sharedConnection"}[path]
    with pytest.raises(DeviceChanged, match=missing):
        run(device(place, f"missing-selector={missing}", path=path), model)
    with pytest.raises(DeviceChanged, match="found nil"):
        run(device(place, f"nil={'program' if path == 3 else 'sharedConnection'}", path=path), model)
    assert problems(place) == ""


def test_hundreds_of_cycles_leave_nothing(place: Path, model: Model) -> None:
    for _ in range(5):
        with ane.open_device(device(place)) as opened:
            for _ in range(40):
                with opened.load(model) as executable:
                    executable.run({"x": ONES})
    assert problems(place) == ""


def test_one_process_compiles_no_more_than_it_may(place: Path, model: Model) -> None:
    with ane.open_device(device(place)) as opened:
        for _ in range(memory_model.COMPILATIONS):
            opened.load(model).close()
        with pytest.raises(BudgetExhausted, match=r"100 of 100 are used\nhint: use the device with worker=on"):
            opened.load(model)


def test_a_process_of_the_system_has_one_count() -> None:
    """Opening the device again gives a process no compilation back; stand-ins are counted one by one."""
    system, simulated = (SimpleNamespace(platform=SimpleNamespace(simulated=each)) for each in (False, True))
    assert compilations(cast(RuntimeSymbols, system)) is compilations(cast(RuntimeSymbols, system))
    assert compilations(cast(RuntimeSymbols, simulated)) is not compilations(cast(RuntimeSymbols, simulated))


def test_threads_load_and_run_at_once(place: Path, model: Model) -> None:
    with ane.open_device(device(place)) as opened, ThreadPoolExecutor(8) as threads:
        shared = opened.load(model)

        def work(number: int) -> bool:
            given = np.full(ONES.shape, number, np.float16)
            for _ in range(5):
                with opened.load(model) as own:
                    if not all((each.run({"x": given})["y"] == 2 * number).all() for each in (own, shared)):
                        return False
            return True

        assert all(threads.map(work, range(8)))
    assert problems(place) == ""


@pytest.mark.parametrize(("name", "message"), [
    ("macos:1", "no target '1'"), ("macos?speed=1", "no option 'speed'; it has runtime, route"),
    ("macos?route=coreml", "memory, e5rt"), ("macos?runtime=simulated&path=5", "path=5 must be a whole number from 1"),
    ("macos?qos=64", "qos=64"), ("macos?timeout=0", "timeout=0"), ("macos?worker=maybe", "on, off"),
    ("macos?inject=hang", "add runtime=simulated"), ("macos?runtime=simulated&worker=off&inject=nothing", "nothing"),
    ("macos?runtime=simulated&inject=nothing", "knows no fault 'nothing'"),
])
def test_names_are_checked(name: str, message: str) -> None:
    with pytest.raises(DeviceError, match=message):
        ane.open_device(name)


@pytest.mark.parametrize(("system", "machine", "message"), [
    ("linux", "arm64", "a part of macOS, and this is linux\nhint: 'macos\\?runtime=simulated'"),
    ("darwin", "x86_64", "runs as x86_64.*\nhint: .*Rosetta"),
])
def test_other_machines_are_refused_with_a_remedy(system: str, machine: str, message: str) -> None:
    require_mac("darwin", "arm64")
    with pytest.raises(DeviceUnavailable, match=message):
        require_mac(system, machine)


@pytest.mark.parametrize(("version", "opset"), [("26.5", "ios18"), ("15.0", "ios18"), ("14.7", "ios17"),
                                                ("13.1", "ios16"), ("12.6", "ios15"), ("", "ios15")])
def test_the_text_is_of_an_opset_the_system_reads(version: str, opset: str) -> None:
    assert dialect(version) == opset


class Graphless:
    name, programs, steps, states, inputs, outputs = "main", (), (), (), (), ()

    @property
    def functions(self) -> dict[str, object]:
        return {self.name: self}


def test_what_the_route_cannot_take_is_named() -> None:
    x = Value("x", TensorType("fp16", (1,) * 6))
    deep = Graph((x,), (Node("relu", {"x": x}, (Value("y", x.type),), "r"),), (), "main")
    odd = Value("odd", TensorType("fp8e4m3fn", (4,)))
    with open_kind("", {"runtime": "simulated", "worker": "off"}) as opened:
        for graph, message in ((deep, r"input 'x': it has too many dimensions .*limit 5, found 6"),
                               (Graph((odd,), (), (odd,), "main"), "input 'odd': ports of this element type"),
                               (None, "it has no graph, and this device compiles graphs")):
            subject = Graphless()
            if graph is not None:
                subject.graph = graph  # type: ignore[attr-defined]
            with pytest.raises(UnsupportedError, match=message):
                opened.load(subject)  # type: ignore[call-overload]
