"""Compressed weights reach the engine as the fp16 weights they stand for; 8-bit activations are chains on fp16."""

import numpy as np
import pytest

from openane import run
from openane.compiler import compile
from openane.errors import UnsupportedError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate


def weights(builder, kind, rng):
    """A [8, 4, 3, 3] weight in one compressed form."""
    shape = (8, 4, 3, 3)
    if kind == "affine":
        return builder.single("constexpr_affine_dequantize", quantized_data=rng.integers(-128, 128, shape, np.int8),
                              zero_point=rng.integers(-4, 4, 8, np.int8), axis=0,
                              scale=rng.uniform(0.001, 0.002, 8).astype(np.float16))
    if kind == "palette":
        return builder.single("constexpr_lut_to_dense", indices=rng.integers(0, 256, 144).astype(np.uint8),
                              lut=rng.standard_normal(16).astype(np.float16) / 8, shape=np.array(shape, np.uint32))
    if kind == "sparse":
        mask = rng.integers(0, 2, shape).astype(np.uint8)
        return builder.single("constexpr_sparse_to_dense", mask=mask,
                              nonzero_data=rng.standard_normal(int(mask.sum())).astype(np.float16) / 8)
    mask = rng.integers(0, 2, shape).astype(np.uint8)
    same, values = builder.add("constexpr_lut_to_sparse", indices_mask=mask,
                               indices_nonzero_data=rng.integers(0, 16, int(mask.sum())).astype(np.uint8),
                               lut=rng.integers(-8, 8, (1, 1, 1, 1, 16, 1), np.int8))
    same, values = builder.add("constexpr_sparse_blockwise_shift_scale", data_mask=same, nonzero_data=values,
                               scale=rng.uniform(0.01, 0.02, (8, 1, 1, 1)).astype(np.float16))
    return builder.single("constexpr_sparse_to_dense", nonzero_data=values, mask=same)


@pytest.mark.parametrize("kind", ["affine", "palette", "sparse", "palette behind a mask"])
def test_compressed_weights(compare, kind):
    builder = GraphBuilder()
    weight = weights(builder, kind, np.random.default_rng(3))
    y = builder.single("conv", x=builder.input("x", "fp16", (1, 4, 9, 9)), weight=weight, pad_type="same")
    model = compare(builder.finish({"y": y}), absolute=6e-3)
    assert len(model.program.tasks) == 1


def test_a_compressed_weight_as_a_result(compare):
    builder = GraphBuilder()
    weight = weights(builder, "affine", np.random.default_rng(4))
    compare(builder.finish({"y": builder.single("relu", x=builder.input("x", "fp16", (3,))), "w": weight}))


def test_compressed_data_must_be_known():
    builder = GraphBuilder()
    y = builder.single("constexpr_affine_dequantize", quantized_data=builder.input("x", "int8", (3,)), axis=0,
                       zero_point=np.int8(0), scale=np.float16(1))
    with pytest.raises(UnsupportedError, match="operands must be constants"):
        compile(builder.finish({"y": y}))


@pytest.mark.parametrize("dtype", ["int8", "uint8"])
@pytest.mark.parametrize("vector", [False, True])
@pytest.mark.parametrize("shift", [False, True])
def test_quantized_activations(compare, dtype, vector, shift):
    rng = np.random.default_rng(5)
    builder = GraphBuilder()
    settings = {"scale": np.float16([0.5, 0.25, 2]) if vector else np.float16(0.5), "axis": 1 if vector else None}
    if shift:
        zero = rng.integers(0, 100, 3 if vector else ()).astype(dtype)
        settings["zero_point"] = zero
    x = builder.input("x", "fp16", (2, 3, 5))
    small = builder.single("quantize", input=x, output_dtype=dtype, **settings)
    compare(builder.finish({"y": builder.single("dequantize", input=small, **settings)}), low=-200, high=200,
            absolute=0.51, relative=2e-3)


def test_8_bit_ports():
    builder = GraphBuilder()
    x = builder.input("x", "int8", (2, 3, 5))
    y = builder.single("dequantize", input=x, scale=np.float16(0.25), zero_point=np.int8(3))
    y = builder.single("quantize", input=builder.single("relu", x=y), scale=np.float16(0.5), output_dtype="uint8")
    graph = builder.finish({"y": y})
    numbers = np.random.default_rng(6).integers(-128, 128, (2, 3, 5), np.int8)
    found = run(compile(graph), {"x": numbers})["y"]
    assert found.dtype == np.uint8
    assert np.array_equal(found, evaluate(graph, {"x": numbers})["y"])
