"""Engine programs as files through the private framework's client, over the stand-in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

import numpy as np
import pytest

import openane as ane
from openane.devices.macos.directories import MODEL_PATH
from openane.devices.macos.graph_program import GraphPort
from openane.devices.macos.precompiled import FILE, PrecompiledRoute, file_program, listed
from openane.devices.macos.routes import RouteOptions, open_route
from openane.devices.macos.standin import SimulatedSymbols
from openane.errors import DeviceChanged, DeviceError, DeviceRejected, SubmitFailed, UnsupportedError, VerifyError
from openane.program import Program

DEVICE = "macos?runtime=simulated&route=precompiled&worker="
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
REQUEST = "requestWithInputs:inputIndices:outputs:outputIndices:weightsBuffer:perfStats:procedureIndex:"


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directories of programs are made here; none may be left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def model() -> ane.Model:
    return ane.compile(ane.load_graph(DIGITS))


def image(seed: int = 0) -> dict[str, np.ndarray]:
    """An input of the digit classifier."""
    return {"image": np.random.default_rng(seed).random((1, 1, 8, 8), np.float32)}


@pytest.mark.parametrize("worker", ["on", "off"])
def test_models_and_programs_give_the_simulators_bits(model: ane.Model, worker: str) -> None:
    with ane.open_device(f"{DEVICE}{worker}") as device:
        assert device.info.takes == ("program", "model")
        with device.load(model) as whole, device.load(model.program) as program:
            for seed in range(3):
                expected = ane.run(model, image(seed))["probabilities"]
                np.testing.assert_array_equal(whole.run(image(seed))["probabilities"], expected)
                found = program.run(image(seed))["probabilities"]
                np.testing.assert_array_equal(found.reshape(-1).astype(np.float32), expected.reshape(-1))
            (task,) = program.report.tasks
    assert task.operation == "program 'main' on the stand-in of the runtime, as a precompiled program"


def test_programs_of_apples_compiler(corpus: Path) -> None:
    paths = sorted(corpus.rglob("*.hwx"))
    ran = 0
    for path in paths:
        program = ane.load_program(path)
        inputs = {buffer.name: np.random.default_rng(7).standard_normal(buffer.layout.shape).astype(np.float16)
                  for buffer in program.inputs if buffer.layout is not None}
        try:
            expected = ane.run(program, inputs)
        except ane.AneError:
            continue
        with ane.open_device(f"{DEVICE}off") as device, device.load(program) as loaded:
            found = loaded.run(inputs)
        for name, values in expected.items():
            np.testing.assert_array_equal(found[name], values, err_msg=f"{path.name} {name}")
        ran += 1
    assert ran >= 2, f"{ran} of {len(paths)} programs"


@pytest.mark.parametrize(("inject", "error", "said"), [
    ("refuse-files", DeviceRejected, "whether this system loads programs its own compiler did not make"),
    ("load", DeviceRejected, "the loader says"), ("nil=modelAtURL:key:", DeviceRejected, "no model of its file"),
    ("nil=fileURLWithPath:", DeviceRejected, "no model of its file"), (f"nil={REQUEST}", DeviceChanged, "_ANERequest"),
    ("nil=objectWithIOSurface:", DeviceChanged, "_ANEIOSurfaceObject"), ("nil=IOSurfaceCreate", DeviceError, "surface"),
    ("nil=sharedConnection", DeviceChanged, "_ANEClient")])
def test_loading_fails_and_leaves_nothing(model: ane.Model, inject: str, error: type[Exception], said: str) -> None:
    symbols = SimulatedSymbols(inject)
    route = opened(symbols)
    for _ in range(20):
        with pytest.raises(error, match=said):
            route.load(file_program(cast(Program, model.program)))
    route.close()
    assert symbols.problems() == ()


def opened(symbols: SimulatedSymbols) -> PrecompiledRoute:
    """The route."""
    route = open_route(symbols, RouteOptions(route="precompiled"))
    assert isinstance(route, PrecompiledRoute)
    return route


@pytest.mark.parametrize("inject", ["missing-class=_ANEModel", "missing-class=NSURL",
                                    "missing-selector=loadModel:options:qos:error:",
                                    "encoding=evaluateWithModel:options:request:qos:error:"])
def test_what_changed_is_told(inject: str) -> None:
    with pytest.raises(DeviceChanged, match=inject.partition("=")[2]):
        opened(SimulatedSymbols(inject))


@pytest.mark.parametrize("inject", ["", "no-attributes"])
def test_a_run_by_the_route(model: ane.Model, inject: str) -> None:
    symbols = SimulatedSymbols(f"{inject},evaluate=0x1d,after=1" if inject else "evaluate=0x1d,after=1")
    route = opened(symbols)
    program = file_program(cast(Program, model.program))
    loaded = route.load(program)
    inputs = {port.mil: np.zeros(port.shape, np.uint8) for port in program.inputs}
    outputs = {port.mil: np.zeros(port.shape, np.uint8) for port in program.outputs}
    assert loaded.run(inputs, outputs).seconds > 0
    assert any(array.any() for array in outputs.values())
    with pytest.raises(SubmitFailed, match="status=0x1d"):
        loaded.run(inputs, outputs)
    loaded.close()
    loaded.close()
    with pytest.raises(DeviceError, match="closed"):
        loaded.run(inputs, outputs)
    route.close()
    assert symbols.problems() == ()


def test_ports_are_taken_in_the_models_order() -> None:
    ports = [GraphPort(name, name, (64,), "uint8", "uint8") for name in "ab"]
    entries = [{"Symbol": "b@input", "Batches": 2, "BatchStride": 128}, {"Symbol": "a", "Batches": 1, "BatchStride": 8}]
    attributes = {"NetworkStatusList": [{"LiveInputList": entries}]}
    assert listed(attributes, "LiveInputList", ports) == [(ports[1], 256), (ports[0], 64)]  # type: ignore[arg-type]
    assert listed({}, "LiveInputList", ports) == [(port, 64) for port in ports]
    for wrong in (entries[:1], [{**entries[0], "BatchStride": 2**40}, entries[1]], [*entries, None],
                  [{**entries[0], "Batches": "two"}, entries[1]]):
        with pytest.raises(DeviceChanged, match="LiveInputList"):
            listed({"NetworkStatusList": [{"LiveInputList": wrong}]}, "LiveInputList", ports)  # type: ignore[dict-item]


def test_what_is_not_for_this_route(model: ane.Model) -> None:
    with ane.open_device(f"{DEVICE}off") as device, pytest.raises(VerifyError):
        device.load(Program("h13", (), b"", (), "nothing"))
    symbols = SimulatedSymbols()
    route = opened(symbols)
    graph = file_program(cast(Program, model.program))
    graph.weights.pop(f"{MODEL_PATH}{FILE}")  # type: ignore[attr-defined]
    with pytest.raises(DeviceError, match="no engine program"):
        route.load(graph)
    with ane.open_device("macos?runtime=simulated&worker=off") as device, \
            pytest.raises(DeviceError, match="route=precompiled"):
        device.load(model.program)


def test_buffers_that_persist_are_refused() -> None:
    from openane.program import Buffer, Role

    program = Program("h13", (), b"", (Buffer("cache", 4, Role.STATE, 64),), "stateful")
    with pytest.raises(UnsupportedError, match="'cache' persists"):
        file_program(program)
