"""A compiled model on a device speaks in the model's shapes and element types."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import openane as ane

MODEL = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def model() -> ane.Model:
    return ane.compile(ane.load_graph(MODEL))


def test_outputs_have_the_models_shape(model: ane.Model) -> None:
    image = np.random.default_rng(0).random((1, 1, 8, 8), np.float32)
    found = ane.run(model, {"image": image})["probabilities"]
    assert (found.shape, found.dtype) == ((1, 10), np.float32)
    with ane.open_device("simulator") as device, device.load(model) as executable:
        later = executable.submit({"image": image}).result(timeout=30)
        assert [task.operation for task in executable.report.tasks][:1] == ["Convolution"]
    np.testing.assert_array_equal(later["probabilities"], found)
    np.testing.assert_array_equal(ane.run(model.program, {"image": image})["probabilities"].reshape(-1),
                                  found.reshape(-1))


def test_wrong_inputs_are_refused(model: ane.Model) -> None:
    with ane.open_device() as device, device.load(model) as executable:
        with pytest.raises(ane.DeviceError, match=r"must have shape \[1, 1, 8, 8\], not \[8, 8\]"):
            executable.run({"image": np.zeros((8, 8), np.float16)})
        with pytest.raises(ane.DeviceError, match="missing 'image'"):
            executable.run({})
        with pytest.raises(ane.DeviceError, match="a Program or a compiled model"):
            device.load(model.graph)  # type: ignore[arg-type]
