"""Programs that trainings compile: steps by every route of the weights, gradients of single operations and of a block,
the six programs of the Stories example. Small sizes, weights drawn for the guard."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
from support.gradient_cases import CASES, Case

from guarded.numbers import Numbers
from openane.compiler import Model, compile
from openane.configuration import read_file
from openane.graph import Graph, Value
from openane.ops.build import GraphBuilder
from openane.training.gradient import gradient
from openane.training.gradient_losses import mean_squared_error
from openane.training.networks import Network
from openane.training.networks.decoder import Decoder
from openane.training.networks.layers import TrainedLayers
from openane.training.objective import objective
from openane.training.runners import ROUTES, open_runner

ROOT = Path(__file__).parents[2]
DIGITS = ROOT / "examples" / "digits" / "train_digits.toml"
LAYER = {"width": 64, "heads": 4, "sequence": 32, "hidden": 96}
CLASSES, ROWS = 10, 16
WEIGHTED = {
    "conv": ("conv", (8, 4, 3, 3), {"pad_type": "same"}), "conv_1x1": ("conv", (8, 4, 1, 1), {}),
    "conv_strides": ("conv", (8, 4, 3, 3), {"strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 1, 1]}),
    "conv_groups": ("conv", (8, 2, 3, 3), {"groups": 2, "pad_type": "same"}),
    "conv_depthwise": ("conv", (4, 1, 3, 3), {"groups": 4, "pad_type": "same"}),
    "conv_transpose": ("conv_transpose", (4, 8, 3, 3), {"pad_type": "custom", "pad": [1, 1, 1, 1]}),
    "linear": ("linear", (6, 8), {}),
}
"""Operations with a weight of this shape, and other operands, on images [3, 4, 8, 8]."""


def makers() -> dict[str, Callable[[str], Model]]:
    """What compiles each program for a target, by name."""
    made: dict[str, Callable[[str], Model]] = {}
    for name, network in NETWORKS.items():
        made |= {f"{name}_step_{route}": partial(_step, network, route) for route in ROUTES}
        made[f"{name}_forward"] = partial(_forward, network)
    graphs: dict[str, Callable[[], Graph]] = {f"gradient_{case}": partial(_gradient, case) for case in CASES}
    graphs |= {f"weights_{name}": partial(_weighted, name) for name in WEIGHTED}
    stories = _stories()
    layer = _layer(stories)
    graphs |= {f"stories_{name.replace(',', '')}": partial(build, layer) for name, build in stories.KERNELS.items()}
    graphs |= {"stories_block": partial(stories.block, layer),
               "stories_block_gradient": partial(_block_gradient, stories, layer)}
    return made | {name: partial(_compiled, graph) for name, graph in graphs.items()}


def _compiled(graph: Callable[[], Graph], target: str) -> Model:
    return compile(graph(), target, precision="as-is")


def _digits() -> Network:
    """The classifier of the digits example."""
    layers = TrainedLayers(tuple(read_file(DIGITS)["model"]["layers"]))
    return layers.build((ROWS, 1, 8, 8), CLASSES, Numbers("digits"), DIGITS.parent)  # type: ignore[arg-type]


def _decoder() -> Network:
    """A decoder of one block on windows of 16 tokens."""
    shape = (4, 16, 32)
    return Decoder(1, 32, 2, 64).build(shape, shape[-1], Numbers("decoder"), ROOT)  # type: ignore[arg-type]


NETWORKS = {"digits": _digits, "decoder": _decoder}


class _Kept:
    """Stands where a training expects its device, and keeps the model it is given last."""

    model: Model

    def load(self, model: Model) -> _Kept:
        self.model = model
        return self

    def write(self, name: str, values: np.ndarray) -> None:
        """Contents of buffers are no part of a program."""

    def update_constants(self, model: Model) -> None:
        self.model = model

    def close(self) -> None:
        """Nothing is held."""


def _step(network: Callable[[], Network], route: str, target: str) -> Model:
    """The model that is on the device when the weights have been set by a route."""
    made = network()
    graphs = objective(made, "all")
    device = _Kept()
    runner = open_runner(route, graphs.joint, graphs.weights, device, target, False)  # type: ignore[arg-type]
    runner.set({name: Numbers(name).standard_normal(array.shape, np.float32) for name, array in made.weights.items()})
    return device.model


def _forward(network: Callable[[], Network], target: str) -> Model:
    """The scores alone, weights as inputs."""
    graphs = objective(network())
    device = _Kept()
    open_runner("inputs", graphs.forward, graphs.weights, device, target, False)  # type: ignore[arg-type]
    return device.model


def _gradient(case: Case) -> Graph:
    """One operation, and the gradients of the weighted sum of its results in all that is differentiated."""
    builder = GraphBuilder()
    values = {name: builder.input(name, "fp16", shape) for name, shape in case.inputs.items()}
    values |= {name: builder.constant(array.astype(np.float16), name) for name, array in case.weights.items()}
    results = case.made(builder, values)
    names = [*case.inputs, *case.weights]
    graph = builder.finish({"loss": _summed(builder, results if isinstance(results, tuple) else (results,))})
    return gradient(graph, "loss", names)


def _summed(builder: GraphBuilder, results: tuple[Value, ...]) -> Value:
    """The sum of all elements, each times a constant."""
    total: Any = None
    for number, value in enumerate(results):
        factors = Numbers("factors", number).uniform(0.25, 1, value.shape).astype(np.float16)
        term = builder.single("mul", x=value, y=factors)
        term = builder.single("reduce_sum", x=term) if value.type.rank else term
        total = term if total is None else builder.single("add", x=total, y=term)
    assert isinstance(total, Value)
    return total


def _weighted(name: str) -> Graph:
    """Forward and backward pass of an operation in its input and its weight."""
    op, shape, operands = WEIGHTED[name]
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (3, 4, 8, 8))
    weight = builder.constant(Numbers(name).exact(shape, 0.5).astype(np.float16), "weight")
    y = builder.single(op, x=x, weight=weight, **operands)
    loss = mean_squared_error(builder, y, builder.input("target", "fp16", y.shape))
    return gradient(builder.finish({"loss": loss}), "loss", ["x", "weight"])


def _stories() -> ModuleType:
    """The layer of the Stories example."""
    place = ROOT / "examples" / "stories" / "layer.py"
    spec = importlib.util.spec_from_file_location("guarded_stories_layer", place)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look there
    spec.loader.exec_module(module)
    return module


def _layer(stories: ModuleType) -> Any:
    """A small layer with weights drawn for the guard."""
    class Drawn(stories.Layer):  # type: ignore[misc, name-defined]
        @property
        def weights(self) -> dict[str, np.ndarray]:
            return {name: Numbers("stories", name).exact(array.shape, 0.25).astype(np.float16)
                    for name, array in super().weights.items()}

    return Drawn(**LAYER)


def _block_gradient(stories: ModuleType, layer: Any) -> Graph:
    """The layer forward, and the gradient of its mean squared error in its input."""
    kernel = stories.Kernel(layer, "block", {"x": layer.width})
    x = kernel.parts["x"]
    middle = kernel.single("add", x=x, y=kernel.attend(kernel.norm(x, "norm1"))["attention"])
    y = kernel.single("add", x=middle, y=kernel.feed(kernel.norm(middle, "norm2"))["feed"])
    loss = mean_squared_error(kernel, y, kernel.input("target", "fp16", y.shape))
    return gradient(kernel.finish({"loss": loss}), "loss", ["x"])
