"""Magika from the package magika on a device: what kind of content bytes are."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import openane as ane

PACKAGE = "magika"
INSTALL = "pip install --no-deps --require-hashes -r examples/files/requirements.txt"
BLOCK = 4096
"""Bytes that are looked at from each end of a file, white space at the ends apart."""
SIDE = 1024
"""Bytes of each end that the network sees."""
NOTHING = 256
"""What stands where a file has no more bytes."""

Network = Callable[[np.ndarray], np.ndarray]
"""Bytes [1, 2 * SIDE] in, a probability for each label out."""


def model_folder() -> Path | None:
    """The folder with the network; None when the package is not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "models" / "standard_v3_3"


def labels(folder: Path) -> list[str]:
    """The names of the network's classes."""
    return list(json.loads((folder / "config.min.json").read_text())["target_labels_space"])


class EngineNetwork(ExitStack):
    """The network on a device."""

    def __init__(self, folder: Path, device: str) -> None:
        super().__init__()
        graph = ane.load_graph(folder / "model.onnx", shapes={"bytes": (1, 2 * SIDE)})
        self.model = ane.compile(graph)
        self._loaded = self.enter_context(self.enter_context(ane.open_device(device)).load(self.model))

    def __call__(self, ends: np.ndarray) -> np.ndarray:
        return self._loaded.run({"bytes": ends})["target_label"][0]


def runtime_network(folder: Path) -> Network:
    """The same network on onnxruntime, to compare with."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(folder / "model.onnx"), providers=["CPUExecutionProvider"])
    return lambda ends: session.run(None, {"bytes": ends})[0][0]


def ends_of(content: bytes) -> np.ndarray:
    """Both ends of a file, int32 [1, 2 * SIDE]."""
    first = np.frombuffer(content[:BLOCK].lstrip()[:SIDE], np.uint8)
    last = np.frombuffer(content[-BLOCK:].rstrip()[-SIDE:], np.uint8)
    made = np.full((1, 2 * SIDE), NOTHING, np.int32)
    made[0, :len(first)] = first
    made[0, 2 * SIDE - len(last):] = last
    return made
