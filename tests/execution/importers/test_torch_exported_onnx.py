"""Models of the transformers library as PyTorch's present ONNX exporter writes them: on the engine but for lookups,
with onnxruntime's numbers. One for each form that used to stop a family."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

import openane as ane

pytestmark = [pytest.mark.needs("torch", "transformers", "onnxscript"), pytest.mark.filterwarnings("ignore")]
MODELS = {"bert": "lookups of known elements at known positions", "distilbert": "single numbers that are raised",
          "convbert": "unfoldings by two lookups", "canine": "hashes for short tables"}


@pytest.mark.parametrize("name", MODELS)
def test_as_onnxruntime_computes(name: str, libraries: Any, tmp_path: Path) -> None:
    import torch

    described = next(each for each in libraries.described() if each.key == f"transformers/{name}")
    built = libraries.build(described)
    path = tmp_path / "model.onnx"
    torch.onnx.export(built.module, (), path, kwargs=built.keywords, dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    tensors = [value.numpy() for value in built.keywords.values() if isinstance(value, torch.Tensor)]
    inputs = {port.name: array for port, array in zip(session.get_inputs(), tensors, strict=True)}
    found = ane.run(ane.compile(ane.load_graph(path)), inputs, "simulator?arithmetic=exact")
    for port, wanted in zip(session.get_outputs(), session.run(None, inputs), strict=True):
        errors = found[port.name].astype(np.float64) - wanted
        assert np.linalg.norm(errors) <= 5e-3 * np.linalg.norm(wanted), port.name
