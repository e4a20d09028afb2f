"""The MiniLM example on the Linux backend over a simulated driver: the simulator's embeddings, bit for bit."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.graph import numpy_type

FOLDER = Path(__file__).parents[3] / "examples" / "minilm"
TOKENS = 8


def test_embeddings_are_the_simulators() -> None:
    for name in ("safetensors", "scipy", "tokenizers"):
        pytest.importorskip(name)
    names = ("encoder", "network", "weights")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(FOLDER)
        encoder, _, weights = (__import__(name) for name in names)
        for name in names:
            sys.modules.pop(name)
    folder = weights.model_folder()
    if folder is None:
        pytest.skip(f"the weights are not installed: {weights.INSTALL}")
    model = encoder.SentenceEncoder(folder, TOKENS).model
    rng = np.random.default_rng(5)
    inputs = {port.name: rng.uniform(-1, 1, port.shape).astype(numpy_type(port.dtype)) for port in model.inputs}
    wanted, found = (ane.run(model, inputs, device) for device in ("simulator", "linux?driver=simulated"))
    assert {name: array.tobytes() for name, array in found.items()} == \
        {name: array.tobytes() for name, array in wanted.items()}
