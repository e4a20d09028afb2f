"""Basic Pitch from the package basic-pitch on a device: which of 88 keys sound, and begin to, in every frame."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import openane as ane

PACKAGE = "basic_pitch"
INSTALL = "pip install --no-deps --require-hashes -r examples/music/requirements.txt"
RATE = 22050
"""Samples a second."""
FRAME = 256
"""Samples from one frame to the next."""
WINDOW = 43844
"""Samples the network hears at once: 172 frames."""
BESIDE = 15
"""Frames at each end of a window that are left to the windows beside it."""
INPUT, SOUNDING, BEGINNING = "serving_default_input_2:0", "StatefulPartitionedCall:1", "StatefulPartitionedCall:2"

Network = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray]]
"""A window [1, WINDOW, 1] in; how likely each key sounds, and begins to, out: [frames, 88] each."""


def model_file() -> Path | None:
    """The network; None when the package is not installed."""
    spec = find_spec(PACKAGE)
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "saved_models" / "icassp_2022" / "nmp.onnx"


class EngineNetwork(ExitStack):
    """The network on a device."""

    def __init__(self, file: Path, device: str) -> None:
        super().__init__()
        self.model = ane.compile(ane.load_graph(file, shapes={INPUT: (1, WINDOW, 1)}))
        self._loaded = self.enter_context(self.enter_context(ane.open_device(device)).load(self.model))

    def __call__(self, window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        found = self._loaded.run({INPUT: window})
        return found[SOUNDING][0], found[BEGINNING][0]


def runtime_network(file: Path) -> Network:
    """The same network on onnxruntime, to compare with."""
    import onnxruntime
    session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])

    def run(window: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        sounding, beginning = session.run([SOUNDING, BEGINNING], {INPUT: window})
        return sounding[0], beginning[0]
    return run


def heard(samples: np.ndarray, network: Network) -> tuple[np.ndarray, np.ndarray]:
    """What sounds and what begins in all frames of a piece, window after window."""
    before = np.concatenate([np.zeros(BESIDE * FRAME, np.float32), samples])
    step = WINDOW // FRAME * FRAME + FRAME - 2 * BESIDE * FRAME
    parts = []
    for start in range(0, len(samples), step):
        window = before[start:start + WINDOW]
        padded = np.pad(window, (0, WINDOW - len(window)))[None, :, None]
        parts.append([frames[BESIDE:-BESIDE] for frames in network(padded)])
    count = -(-len(samples) // FRAME)
    sounding, beginning = (np.concatenate(kind)[:count] for kind in zip(*parts, strict=True))
    return sounding, beginning
