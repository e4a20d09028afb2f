"""The graph runtime route (e5rt) over the stand-in: right results, right errors, nothing left."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from support.standin import weighted_sum

import openane as ane
from openane.devices.macos.e5rt import COMPILATIONS, E5Route
from openane.devices.macos.e5rt_functions import PROTOTYPES
from openane.devices.macos.graph_program import GraphPort, GraphProgram
from openane.devices.macos.routes import RouteOptions, open_route
from openane.devices.macos.standin import SimulatedSymbols
from openane.errors import (
    BudgetExhausted,
    DeviceChanged,
    DeviceError,
    DeviceRejected,
    DeviceUnavailable,
    SubmitFailed,
    UnsupportedError,
)

RELEASES = [name for name in PROTOTYPES if name.endswith("_release")]
MAKERS = [name for name in PROTOTYPES if name.endswith(("create", "alloc", "_port", "compile", "function", "config",
                                                        "with_options", "get_data_ptr"))]


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Directories of models are made here; none may be left."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    yield tmp_path
    assert list(tmp_path.iterdir()) == []


def opened(inject: str = "") -> tuple[SimulatedSymbols, E5Route]:
    """The route over the stand-in."""
    symbols = SimulatedSymbols(inject)
    route = open_route(symbols, RouteOptions(route="e5rt"))
    assert isinstance(route, E5Route)
    return symbols, route


def drawn(seed: int) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Inputs of `weighted_sum`, and its output for them."""
    a, b, c = np.random.default_rng(seed).integers(-8, 8, (3, 3, 8)).astype(np.float16)
    return {"a": a, "b": b, "c": c}, a * b - c + np.arange(8, dtype=np.float16)


def test_runs_by_name() -> None:
    symbols, route = opened()
    program = route.load(weighted_sum())
    for seed in range(5):
        inputs, expected = drawn(seed)
        found = np.zeros((3, 8), np.float16)
        facts = program.run(inputs, {"y": found})
        assert np.array_equal(found, expected)
        assert facts.where == "the stand-in of the graph runtime, and no other device"
    program.close()
    program.close()
    route.close()
    assert symbols.problems() == ()


@pytest.mark.parametrize(("dtype", "shape"), [("fp16", (1,)), ("int8", (5,)), ("uint8", (2, 1, 3)), ("int16", (33,)),
                                              ("uint16", (1, 2, 2, 2, 3))])
def test_element_types_and_ranks(dtype: str, shape: tuple[int, ...]) -> None:
    kind = f"tensor<{dtype}, [{', '.join(map(str, shape))}]>"
    text = ("program(1.3)\n{\n  func main<ios18>(" + f"{kind} x) {{\n    {kind} y = identity(x = x)"
            + '[name = string("y")];\n  } -> (y);\n}\n')
    symbols, route = opened()
    ports = [(GraphPort(name, name, shape, dtype, dtype),) for name in "xy"]
    program = route.load(GraphProgram("identity", text, {}, *ports, {}))
    values = np.arange(np.prod(shape)).reshape(shape).astype({"fp16": "float16"}.get(dtype, dtype))
    found = np.zeros_like(values)
    program.run({"x": values}, {"y": found})
    route.close()
    assert np.array_equal(found, values)
    assert symbols.problems() == ()


@pytest.mark.parametrize(("inject", "said"), [
    ("compile", "e5rt_e5_compiler_compile gives 11: ANECCompile"), ("load", "could not be loaded"),
    *((f"nil={name}", "gives 0: it gives no") for name in MAKERS)])
def test_loading_fails_and_leaves_nothing(inject: str, said: str) -> None:
    symbols, route = opened(inject)
    for _ in range(3):
        with pytest.raises(DeviceRejected, match=said):
            route.load(weighted_sum())
    route.close()
    assert symbols.problems() == ()


def test_a_failed_run_says_why_and_leaves_the_program_usable() -> None:
    symbols, route = opened("evaluate=0x1d,after=1")
    program = route.load(weighted_sum())
    inputs, _ = drawn(1)
    outputs = {"y": np.zeros((3, 8), np.float16)}
    program.run(inputs, outputs)
    with pytest.raises(SubmitFailed, match="status=0x1d") as failed:
        program.run(inputs, outputs)
    assert (failed.value.domain, failed.value.code) == ("e5rt", 13)
    program.close()
    with pytest.raises(DeviceError, match="closed"):
        program.run(inputs, outputs)
    route.close()
    assert symbols.problems() == ()


@pytest.mark.parametrize("version", ["15.6.1", "27.0", ""])
def test_only_where_it_was_verified(version: str) -> None:
    with pytest.raises(DeviceUnavailable, match="verified on macOS 26"):
        opened(f"version={version}")


@pytest.mark.parametrize("name", PROTOTYPES)
def test_every_function_is_looked_for(name: str) -> None:
    with pytest.raises(DeviceChanged, match=name):
        opened(f"missing-function={name}")


def test_the_text_of_errors_is_not_needed() -> None:
    _, route = opened("compile,missing-function=e5rt_get_last_error_message")
    with pytest.raises(DeviceRejected, match="gives 11: no text was given"):
        route.load(weighted_sum())
    with pytest.raises(DeviceUnavailable, match="Espresso"):
        opened("missing-library=Espresso")


def test_compiling_for_another_generation() -> None:
    symbols, route = opened()
    route.compile_for(weighted_sum(), "h13")
    assert symbols.problems() == ()
    _, route = opened("compile")
    with pytest.raises(DeviceRejected, match="for h13 was refused"):
        route.compile_for(weighted_sum(), "h13")
    _, route = opened("missing-function=e5rt_e5_compiler_options_set_custom_ane_compiler_options")
    with pytest.raises(UnsupportedError, match="another generation"):
        route.compile_for(weighted_sum(), "h13")


def test_compilations_are_counted() -> None:
    symbols, route = opened()
    for _ in range(COMPILATIONS):
        route.load(weighted_sum()).close()
    with pytest.raises(BudgetExhausted, match=f"{COMPILATIONS} of {COMPILATIONS}"):
        route.load(weighted_sum())
    assert symbols.problems() == ()


def test_a_forked_process_does_not_use_it(monkeypatch: pytest.MonkeyPatch) -> None:
    _, route = opened()
    program = route.load(weighted_sum())
    inputs, _ = drawn(1)
    with monkeypatch.context() as patch:
        patch.setattr(os, "getpid", lambda: -1)
        with pytest.raises(DeviceUnavailable, match="forked"):
            program.run(inputs, {"y": np.zeros((3, 8), np.float16)})
        with pytest.raises(DeviceUnavailable, match="forked"):
            route.load(weighted_sum())
    route.close()


def test_threads_share_a_program() -> None:
    symbols, route = opened()
    program = route.load(weighted_sum())
    wrong: list[int] = []

    def work(seed: int) -> None:
        inputs, expected = drawn(seed)
        found = np.zeros((3, 8), np.float16)
        for _ in range(20):
            program.run(inputs, {"y": found})
            if not np.array_equal(found, expected):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    route.close()
    assert not wrong
    assert symbols.problems() == ()


def test_a_thousand_failed_runs_leave_nothing() -> None:
    symbols, route = opened("evaluate")
    program = route.load(weighted_sum())
    inputs, _ = drawn(1)
    before = len(os.listdir("/proc/self/fd")) if Path("/proc/self/fd").exists() else 0
    for _ in range(1000):
        with pytest.raises(SubmitFailed):
            program.run(inputs, {"y": np.zeros((3, 8), np.float16)})
    assert (len(os.listdir("/proc/self/fd")) if before else 0) == before
    route.close()
    assert symbols.problems() == ()


@pytest.mark.parametrize("worker", ["on", "off"])
def test_a_compiled_model_on_the_device(worker: str, temporary: Path) -> None:
    model = ane.compile(ane.load_graph(Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"))
    inputs = {"image": np.random.default_rng(0).random((1, 1, 8, 8), np.float32)}
    report = temporary / "report"
    name = f"macos?runtime=simulated&route=e5rt&worker={worker}&inject=report={report}"
    with ane.open_device(name) as device, device.load(model) as loaded:
        found = loaded.run(inputs)["probabilities"]
    np.testing.assert_allclose(found, ane.run(model, inputs)["probabilities"], atol=4e-3)
    assert report.read_text() == ""
    report.unlink()
