"""The twelve networks of benchmarks/models.py, their weights drawn for the guard: nothing of them is measured, so that
no other library's arithmetic takes part in them."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from math import prod
from pathlib import Path

import numpy as np
from networks import topologies, transformers
from onnx import ModelProto, numpy_helper

from guarded.numbers import Numbers
from openane.compiler import Model, compile
from openane.importers import load_graph

TOKENS = 128
NETWORKS: dict[str, Callable[[], ModelProto]] = {
    **{name: partial(topologies.topology, name, settled=False) for name in topologies.NAMES},
    "vit_tiny": transformers.vit_tiny, "whisper_tiny_encoder": transformers.whisper_tiny_encoder,
    "minilm": partial(transformers.minilm, TOKENS),
}
"""What makes each network, by name."""


def makers() -> dict[str, Callable[[str], Model]]:
    """What compiles each network for a target, by name."""
    return {name: partial(_compiled, name) for name in NETWORKS}


def _compiled(name: str, target: str) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"{name}.onnx"
        path.write_bytes(drawn_anew(NETWORKS[name](), name).SerializeToString())
        return compile(load_graph(path), target)


def drawn_anew(model: ModelProto, name: str) -> ModelProto:
    """The model with other numbers in every float initialiser of more than one: about 1 where all are above 0, as gains
    and variances are, else about 0, smaller the more of them are summed. fp16 holds all of them."""
    for initializer in model.graph.initializer:
        array = numpy_helper.to_array(initializer)
        if array.dtype.kind != "f" or array.size == 1:
            continue
        numbers = Numbers(name, initializer.name)
        if array.min() > 0:
            made = 1 + numbers.integers(-256, 256, array.shape) / 1024
        else:
            summed = prod(array.shape[1:]) if array.ndim > 1 else 1
            made = numbers.exact(array.shape, 2.0 ** -(summed.bit_length() // 2))
        initializer.CopyFrom(numpy_helper.from_array(made.astype(np.float32), initializer.name))
    return model
