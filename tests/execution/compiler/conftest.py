"""Fixtures that compile a graph, run it on the simulator and beside it the operations' references."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np
import pytest

import openane as ane
from openane.chips import DEFAULT_TARGET
from openane.compiler import Model, Port, compile
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.program import Layout
from openane.simulator import load


def _pack(array: np.ndarray, layout: Layout) -> np.ndarray:
    """The bytes of a surface, gaps filled with a pattern that must not matter."""
    buffer = np.full(layout.size // 2, np.float16(77.0), np.float16)
    _view(buffer, layout)[...] = array.reshape(layout.shape).astype(np.float16)
    return buffer.view(np.uint8)


def _view(buffer: np.ndarray, layout: Layout) -> np.ndarray:
    """The tensor in a buffer of halfwords."""
    return np.lib.stride_tricks.as_strided(buffer, layout.shape, layout.strides)


def _execute(model: Model, inputs: Mapping[str, np.ndarray], mode: str = "fast") -> dict[str, np.ndarray]:
    """Outputs of a compiled model by name, float64."""
    loaded = load(model.program, arithmetic=mode)
    loaded.run({port.name: _pack(inputs[port.name], port.layout) for port in model.inputs})
    return {port.name: _read(loaded.buffers[port.name], port) for port in model.outputs}


def _read(buffer: np.ndarray, port: Port) -> np.ndarray:
    """An output port's tensor as float64."""
    return _view(buffer.view(np.float16), port.layout).astype(np.float64).reshape(port.shape)


def _compare(graph: Graph, seed: int = 0, *, low: float = -2.0, high: float = 2.0, absolute: float = 2e-3,
            relative: float = 2e-3, target: str = DEFAULT_TARGET) -> Model:
    """Compiles, runs and compares: every element within absolute + relative * |reference|. Returns the model."""
    model = compile(graph, target=target)
    rng = np.random.default_rng(seed)
    inputs = {v.name: rng.uniform(low, high, v.shape).astype(np.float16) for v in graph.inputs}
    found = _execute(model, inputs)
    wanted = evaluate(graph, inputs)
    for name, expected in wanted.items():
        wide = expected.astype(np.float64)
        error = np.abs(found[name] - wide)
        assert (error <= absolute + relative * np.abs(wide)).all(), \
            f"{name}: worst {error.max()} at {np.unravel_index(error.argmax(), error.shape)}"
    return model


def _single(op: str, extents: tuple[int, ...], /, **operands: object) -> Graph:
    """A graph of one operation on an input x."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", extents)
    return builder.finish({"result": builder.single(op, x=x, **operands)})


@pytest.fixture(scope="session")
def execute() -> Callable[..., dict[str, np.ndarray]]:
    """execute(model, inputs, mode="fast"): outputs of a compiled model on the simulator."""
    return _execute


@pytest.fixture(scope="session")
def compare() -> Callable[..., Model]:
    """compare(graph, seed=0, low=, high=, absolute=, relative=, target=): compiles, runs, holds to the references."""
    return _compare


def _hold(graph: Graph, inputs: Mapping[str, np.ndarray] | None = None, *, seed: int = 0, low: float = -2.0,
          high: float = 2.0, absolute: float = 2e-3, relative: float = 2e-3) -> Model:
    """Compiles, verifies and runs in both arithmetics; every element is within absolute + relative * |reference| and
    nothing runs on the host. Inputs that are not given are drawn. Returns the model."""
    model = compile(graph)
    assert not model.host_operations
    rng = np.random.default_rng(seed)
    drawn = {v.name: rng.integers(0, 2, v.shape).astype(bool) if v.dtype == "bool" else
             rng.uniform(low, high, v.shape).astype(np.float16) for v in graph.inputs}
    drawn.update(inputs or {})
    wanted = evaluate(graph, drawn)
    for mode in ("fast", "exact"):
        found = ane.run(model, drawn, f"simulator?arithmetic={mode}")
        for name, expected in wanted.items():
            wide = expected.astype(np.float64)
            error = np.abs(found[name].astype(np.float64) - wide)
            assert (error <= absolute + relative * np.abs(wide)).all(), f"{name} ({mode}): worst {error.max()}"
    return model


@pytest.fixture(scope="session")
def hold() -> Callable[..., Model]:
    """hold(graph, inputs=None, seed=0, low=, high=, absolute=, relative=): holds a graph to its reference, verified, in
    both arithmetics."""
    return _hold


@pytest.fixture(scope="session")
def single() -> Callable[..., Graph]:
    """single(op, shape, **operands): a graph of one operation on an input x."""
    return _single
