"""Training steps on the engine, forward and backward, by every route of the weights, beside the same in fp32."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from openane.configuration import read_file
from openane.devices.protocol import Device
from openane.training.networks import Network
from openane.training.networks.decoder import Decoder
from openane.training.networks.network import INPUT
from openane.training.objective import IMPORTANCE, TARGET, batch_inputs, objective
from openane.training.runners import ROUTES, open_runner
from openane.training.settings import settings
from per_generation.case import Arrays, Case

CONFIG = Path(__file__).parents[2] / "examples" / "digits" / "train_digits.toml"
SCALE = 1024.0
"""The loss is multiplied by it, as trainings begin."""
Step = tuple[Network, Arrays]
"""A network, and what a step of it reads besides weights."""


def cases() -> dict[str, Callable[[], Case]]:
    """What makes each case, by name."""
    return {f"{name}_{route}": partial(_case, make, route) for name, make in STEPS.items() for route in ROUTES}


def _digits() -> Step:
    """The shipped training of the digit classifier: its first batch."""
    made = settings(read_file(CONFIG), CONFIG.parent)
    split, count = made.data.load(made.base), made.training.batch
    inputs, labels = split.training.take(np.arange(count))
    network = made.model.build(inputs.shape, split.classes, np.random.default_rng(made.training.seed), made.base)
    return network, batch_inputs(inputs, labels, split.classes, split.tokens, count, SCALE / count)


def _decoder() -> Step:
    """A language model of one block, on four windows of 16 tokens drawn of 32."""
    shape = windows, length, classes = 4, 16, 32
    rng = np.random.default_rng(0)
    network = Decoder(1, 32, 2, 64).build(shape, classes, rng, CONFIG.parent)
    tokens = rng.integers(0, classes, (windows, length + 1))
    share = SCALE / (windows * length)
    return network, batch_inputs(tokens[:, :-1], tokens[:, 1:], classes, True, windows, share)


STEPS: dict[str, Callable[[], Step]] = {"digits": _digits, "decoder": _decoder}


def _case(make: Callable[[], Step], route: str) -> Case:
    network, feeds = make()
    assert set(feeds) == {INPUT, TARGET, IMPORTANCE}
    graphs = objective(network, "all")

    def outputs(target: str, device: Device | None) -> Arrays:
        runner = open_runner(route, graphs.joint, graphs.weights, device, target, False)
        try:
            runner.set(network.weights)
            return {name: np.array(array) for name, array in runner.run(feeds).items()}
        finally:
            runner.close()

    return Case(outputs, lambda: outputs("", None))
