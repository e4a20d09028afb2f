"""Silero VAD from the package silero-vad on a device, a chunk of sound at a time; its state stays on the device."""

from __future__ import annotations

from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import openane as ane
from openane.graph.states import with_states
from openane.importers.onnx import load_onnx

PACKAGE = "silero_vad"
INSTALL = "pip install --no-deps --require-hashes -r examples/voice/requirements.txt"
RATE = 16000
"""Samples a second."""
CHUNK = 512
CONTEXT = 64
"""Samples of the chunk before that the network sees too."""
STATE = (2, 1, 128)


def model_file() -> Path | None:
    """The network; None when the package is not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "data" / "silero_vad.onnx"


class VoiceDetector(ExitStack):
    """How likely each chunk holds speech, given all before it."""

    def __init__(self, file: Path, device: str) -> None:
        super().__init__()
        graph = load_onnx(file, {"input": (1, CONTEXT + CHUNK), "state": STATE}, values={"sr": np.array(RATE)})
        self.model = ane.compile(with_states(graph, {"state": "stateN"}))
        self._loaded = self.enter_context(self.enter_context(ane.open_device(device)).load(self.model))
        self._before = np.zeros(CONTEXT, np.float32)

    def __call__(self, chunk: np.ndarray) -> float:
        found = self._loaded.run({"input": np.concatenate([self._before, chunk])[None]})
        self._before = chunk[-CONTEXT:]
        return float(found["output"][0, 0])


class RuntimeDetector:
    """The same network on onnxruntime, to compare with."""

    def __init__(self, file: Path) -> None:
        import onnxruntime
        self._session = onnxruntime.InferenceSession(str(file), providers=["CPUExecutionProvider"])
        self._state = np.zeros(STATE, np.float32)
        self._before = np.zeros(CONTEXT, np.float32)

    def __call__(self, chunk: np.ndarray) -> float:
        sound = np.concatenate([self._before, chunk])[None]
        chance, self._state = self._session.run(None, {"input": sound, "state": self._state, "sr": np.array(RATE)})
        self._before = chunk[-CONTEXT:]
        return float(chance[0, 0])
