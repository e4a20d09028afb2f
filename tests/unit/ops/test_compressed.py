"""Compressed constants and 8-bit numbers: references against formulas written out element by element, refusals."""

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from openane.errors import GraphError
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate

FEW = settings(max_examples=60, deadline=None, derandomize=True)
SHAPES = hnp.array_shapes(min_dims=1, max_dims=4, max_side=5)


def result(op, **operands):
    """What the operation gives for constants: arrays, one per result."""
    builder = GraphBuilder()
    made = builder.add(op, **operands)
    values = made if isinstance(made, tuple) else (made,)
    found = evaluate(builder.finish(list(values)), {})
    assert all(found[value.name].shape == value.shape for value in values)
    return [found[value.name] for value in values]


def packed(numbers, bits):
    """Bytes that hold numbers of `bits` bits one after the other, low bits first."""
    total = sum(int(number) << (bits * i) for i, number in enumerate(numbers))
    return np.frombuffer(total.to_bytes(-(-bits * len(numbers) // 8), "little"), np.uint8)


@FEW
@given(shape=SHAPES, data=st.data(), dtype=st.sampled_from(["int8", "uint8"]), vector=st.booleans())
def test_affine(shape, data, dtype, vector):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    limits = np.iinfo(dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = (shape[axis],) if vector else ()
    values, zero = (rng.integers(limits.min, limits.max + 1, s).astype(dtype) for s in (shape, size))
    scale = rng.uniform(0.1, 2, size).astype(np.float16)
    (found,) = result("constexpr_affine_dequantize", quantized_data=values, zero_point=zero, scale=scale, axis=axis)
    for index in np.ndindex(*shape):
        place = (index[axis],) if vector else ()
        assert found[index] == np.float32(scale[place]) * (int(values[index]) - int(zero[place]))


@FEW
@given(shape=SHAPES, bits=st.sampled_from([1, 2, 4, 6, 8]), seed=st.integers(0, 99))
def test_packed_palettes(shape, bits, seed):
    rng = np.random.default_rng(seed)
    indices, lut = rng.integers(0, 2 ** bits, shape), rng.standard_normal(2 ** bits).astype(np.float16)
    (found,) = result("constexpr_lut_to_dense", indices=packed(indices.reshape(-1), bits), lut=lut,
                      shape=np.array(shape, np.uint32))
    assert np.array_equal(found, lut[indices].astype(np.float32))


@FEW
@given(data=st.data(), bits=st.sampled_from([1, 2, 3, 4, 6, 8]), vector=st.sampled_from([1, 1, 2, 3]))
def test_palettes_by_block(data, bits, vector):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    blocks = tuple(data.draw(st.sampled_from([d for d in range(1, e + 1) if e % d == 0])) for e in shape)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1)) if vector > 1 else None
    rng = np.random.default_rng(bits)
    indices = rng.integers(0, 2 ** bits, shape).astype(np.uint8)
    lut = rng.standard_normal((*blocks, 2 ** bits, vector)).astype(np.float16)
    (found,) = result("constexpr_lut_to_dense", indices=indices, lut=lut, vector_axis=axis)
    for index, part in product(np.ndindex(*shape), range(vector)):
        block = tuple(i * b // e for i, b, e in zip(index, blocks, shape, strict=True))
        place = list(index)
        if axis is not None:
            place[axis] = place[axis] * vector + part
        assert found[tuple(place)] == lut[(*block, indices[index], part)]


@FEW
@given(shape=SHAPES, seed=st.integers(0, 99), flat=st.booleans())
def test_masks(shape, seed, flat):
    rng = np.random.default_rng(seed)
    mask = rng.integers(0, 2, shape).astype(np.uint8)
    mask.reshape(-1)[0] = 1
    values = rng.standard_normal(int(mask.sum())).astype(np.float16)
    wanted, cursor = np.zeros(shape), 0
    for index in np.ndindex(*shape):
        if mask[index]:
            wanted[index], cursor = values[cursor], cursor + 1
    given_ = {"mask": packed(mask.reshape(-1), 1), "shape": np.array(shape, np.uint32)} if flat else {"mask": mask}
    assert np.array_equal(result("constexpr_sparse_to_dense", nonzero_data=values, **given_)[0], wanted)


@FEW
@given(data=st.data(), offset=st.booleans(), seed=st.integers(0, 99))
def test_scales_by_block(data, offset, seed):
    shape = data.draw(hnp.array_shapes(min_dims=1, max_dims=3, max_side=6))
    blocks = tuple(data.draw(st.sampled_from([d for d in range(1, e + 1) if e % d == 0])) for e in shape)
    rng = np.random.default_rng(seed)
    values, shifts = (rng.integers(-8, 8, s).astype(np.int8) for s in (shape, blocks))
    scale = rng.uniform(0.1, 2, blocks).astype(np.float16)
    (found,) = result("constexpr_blockwise_shift_scale", data=values, scale=scale, offset=shifts if offset else None)
    for index in np.ndindex(*shape):
        block = tuple(i * b // e for i, b, e in zip(index, blocks, shape, strict=True))
        assert found[index] == np.float32(scale[block]) * (int(values[index]) - int(shifts[block]) * offset)


def test_masked_tables_and_scales_feed_a_mask():
    mask = np.array([[1, 0, 1], [0, 1, 1]], np.uint8)
    lut = np.array([2, 3], np.float16).reshape(1, 1, 2, 1)
    same, values = result("constexpr_lut_to_sparse", indices_mask=mask, lut=lut,
                          indices_nonzero_data=np.array([0, 1, 1, 0], np.uint8))
    assert np.array_equal(same, mask)
    assert values.tolist() == [2, 3, 3, 2]
    wide, values = result("constexpr_lut_to_sparse", indices_mask=mask, lut=np.arange(4.0, dtype=np.float16)
                          .reshape(1, 1, 2, 2), indices_nonzero_data=np.array([0, 1, 1, 0], np.uint8), vector_axis=0)
    assert np.array_equal(wide, np.repeat(mask, 2, 0))
    assert values.tolist() == [0, 2, 1, 3, 2, 0, 3, 1]
    _, scaled = result("constexpr_sparse_blockwise_shift_scale", data_mask=mask, offset=np.full((1, 3), 1, np.int8),
                       nonzero_data=np.array([1, 2, 3, 4], np.int8), scale=np.array([[1, 10, 100]], np.float16))
    assert scaled.tolist() == [0, 100, 20, 300]


@FEW
@given(shape=SHAPES, data=st.data(), dtype=st.sampled_from(["int8", "uint8"]), vector=st.booleans(),
       shift=st.booleans())
def test_quantize_and_dequantize(shape, data, dtype, vector, shift):
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    limits = np.iinfo(dtype)
    axis = data.draw(st.integers(-len(shape), len(shape) - 1))
    size = (shape[axis],) if vector else ()
    x = rng.uniform(-300, 300, shape).astype(np.float32)
    scale = rng.choice(np.float32([0.5, 1, 2]), size)
    zero = rng.integers(limits.min, limits.max + 1, size).astype(dtype)
    settings_ = {"scale": scale, "zero_point": zero if shift else None, "axis": axis if vector else None}
    (found,) = result("quantize", input=x, output_dtype=dtype, **settings_)
    assert found.dtype == np.dtype(dtype)
    (back,) = result("dequantize", input=found, **settings_)
    for index in np.ndindex(*shape):
        place = (index[axis],) if vector else ()
        point = int(zero[place]) if shift else 0
        wanted = min(max(round(float(x[index] / scale[place])) + point, limits.min), limits.max)
        assert found[index] == wanted
        assert back[index] == (wanted - point) * scale[place]


@pytest.mark.parametrize(("op", "operands", "message"), [
    ("constexpr_lut_to_dense", {"indices": np.zeros(3, np.uint8), "lut": np.zeros(3, np.float16), "shape": [3]},
     "must be a vector of 2, 4, 16, 64, 256 entries"),
    ("constexpr_lut_to_dense", {"indices": np.zeros(3, np.uint8), "lut": np.zeros(4, np.float16), "shape": [3]},
     "must be a vector of 1 elements"),
    ("constexpr_lut_to_dense", {"indices": np.zeros((2, 2), np.uint8), "lut": np.zeros((1, 1, 4, 2), np.float16)},
     "'vector_axis' must be given"),
    ("constexpr_lut_to_dense", {"indices": np.zeros((2, 2), np.uint8), "lut": np.zeros((1, 3, 4, 1), np.float16)},
     "must divide every dimension"),
    ("constexpr_sparse_to_dense", {"nonzero_data": np.zeros(2, np.float16), "mask": np.uint8([1]), "shape": [3]},
     "must be a vector of 1 elements"),
    ("constexpr_affine_dequantize", {"quantized_data": np.zeros((2, 3), np.int8), "zero_point": np.int8(0),
                                     "scale": np.ones(3, np.float16), "axis": 0}, "one number or a vector of 2"),
    ("constexpr_blockwise_shift_scale", {"data": np.zeros((4, 4), np.int8), "scale": np.ones((3, 1), np.float16)},
     "must divide every dimension"),
    ("quantize", {"input": np.zeros(3, np.float16), "scale": np.float16(0), "output_dtype": "int8"}, "must not be 0"),
    ("quantize", {"input": np.zeros(3, np.float16), "scale": np.ones(3, np.float16), "output_dtype": "int8"},
     "'axis' must be given"),
    ("constexpr_cast", {"source_val": np.zeros(3, np.float16), "output_dtype": "int8"}, "must be one of fp32"),
])
def test_refusals(op, operands, message):
    with pytest.raises(GraphError, match=message):
        result(op, **operands)
