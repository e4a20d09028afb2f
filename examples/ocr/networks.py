"""PP-OCR's networks from the package rapidocr-onnxruntime, each compiled for the shapes it is given."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np

import openane as ane

PACKAGE = "rapidocr_onnxruntime"
INSTALL = "pip install --no-deps --require-hashes -r examples/ocr/requirements.txt"
FILES = {"detection": "ch_PP-OCRv4_det_infer.onnx", "direction": "ch_ppocr_mobile_v2.0_cls_infer.onnx",
         "recognition": "ch_PP-OCRv4_rec_infer.onnx"}

Network = Callable[[np.ndarray], np.ndarray]
"""An array in, an array out."""


def model_folder() -> Path | None:
    """The folder with the networks; None when the package is not installed."""
    spec = find_spec(PACKAGE)
    return None if spec is None or spec.origin is None else Path(spec.origin).parent / "models"


def characters(folder: Path) -> list[str]:
    """What the classes of the recognition stand for: first nothing, last a space."""
    import onnx
    model = onnx.load(str(folder / FILES["recognition"]))
    stated = next(entry.value for entry in model.metadata_props if entry.key == "character")
    return ["", *stated.splitlines(), " "]


class EngineNetworks(ExitStack):
    """The three networks on a device: one program for each shape that is met."""

    def __init__(self, folder: Path, device: str) -> None:
        super().__init__()
        self._folder = folder
        self._device = self.enter_context(ane.open_device(device))
        self._loaded: dict[tuple[str, tuple[int, ...]], ane.devices.Executable] = {}
        self.models: dict[tuple[str, tuple[int, ...]], ane.Model] = {}

    def __getitem__(self, name: str) -> Network:
        def run(x: np.ndarray) -> np.ndarray:
            key = name, x.shape
            if key not in self._loaded:
                graph = ane.load_graph(self._folder / FILES[name], shapes={"x": x.shape})
                self.models[key] = ane.compile(graph)
                self._loaded[key] = self.enter_context(self._device.load(self.models[key]))
            return next(iter(self._loaded[key].run({"x": x}).values()))
        return run


class RuntimeNetworks:
    """The same networks on onnxruntime, to compare with."""

    def __init__(self, folder: Path) -> None:
        import onnxruntime
        self._sessions = {name: onnxruntime.InferenceSession(str(folder / file), providers=["CPUExecutionProvider"])
                          for name, file in FILES.items()}

    def __getitem__(self, name: str) -> Network:
        return lambda x: self._sessions[name].run(None, {"x": x})[0]
