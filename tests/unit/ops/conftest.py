"""Operations applied to arrays two ways: by their references, and by onnxruntime as a second opinion."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from openane.graph import mil_type
from openane.ops import get_op
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

Apply = Callable[..., np.ndarray]


@pytest.fixture(scope="session")
def apply() -> Apply:
    """apply(operation, **operands): the reference's result. Arrays where the operation takes runtime tensors become
    graph inputs, everything else constants; the inferred type must be what the reference gives."""

    def run(name: str, **operands: Any) -> np.ndarray:
        builder, inputs = GraphBuilder(), {}

        def operand(key: str, data: Any) -> Any:
            inputs[key] = data
            return builder.input(key, mil_type(data.dtype), data.shape)

        variable = {p.name for p in get_op(name).parameters if not p.const}
        stated = {}
        for key, data in operands.items():
            if key in variable and isinstance(data, tuple):
                stated[key] = tuple(operand(f"{key}{i}", item) for i, item in enumerate(data))
            else:
                stated[key] = operand(key, data) if key in variable and isinstance(data, np.ndarray) else data
        value = builder.single(name, "result", **stated)
        result = evaluate(builder.finish([value]), inputs)["result"]
        assert result.shape == value.shape
        assert mil_type(result.dtype) == {"fp16": "fp32"}.get(value.dtype, value.dtype)
        return result

    return run


@pytest.fixture(scope="session")
def onnx_node() -> Apply:
    """onnx_node(type, *inputs, **attributes): what onnxruntime computes for one ONNX node (opset 22)."""
    import onnx
    import onnxruntime as runtime

    runtime.set_default_logger_severity(4)

    def run(kind: str, *inputs: np.ndarray, **attributes: Any) -> np.ndarray:
        names = [f"i{n}" for n in range(len(inputs))]
        values = [onnx.helper.make_tensor_value_info(name, onnx.helper.np_dtype_to_tensor_dtype(array.dtype),
                                                     array.shape) for name, array in zip(names, inputs, strict=True)]
        output = onnx.helper.make_tensor_value_info("o", onnx.TensorProto.FLOAT, None)
        node = onnx.helper.make_node(kind, names, ["o"], **attributes)
        model = onnx.helper.make_model(onnx.helper.make_graph([node], "node", values, [output]),
                                       opset_imports=[onnx.helper.make_opsetid("", 22)], ir_version=10)
        session = runtime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return np.asarray(session.run(None, dict(zip(names, inputs, strict=True)))[0])

    return run
