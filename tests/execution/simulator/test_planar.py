"""Planar-engine operations against numpy on whole arrays and loops over windows."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import CHIP, layout_of

from openane.engine import (
    Access,
    Binary,
    DType,
    Elementwise,
    GainOffset,
    Operation,
    Pool,
    Pooling,
    Reduce,
    Reduction,
    Root,
)
from openane.errors import SimulationError
from openane.program import Buffer, Role
from openane.simulator import RunReport, load_operations

Shape = tuple[int, int, int, int, int]
FLAT: Shape = (1, 3, 1, 5, 7)


def access(slot: int, shape: Shape, dtype: DType = DType.FLOAT16) -> Access:
    return Access(slot=slot, shape=shape, strides=layout_of(shape, dtype).strides, dtype=dtype)


def run(operation: Operation, result: Shape, *inputs: np.ndarray) -> tuple[np.ndarray, RunReport]:
    layouts = [layout_of(x.shape) for x in inputs] + [layout_of(result)]
    buffers = [Buffer(f"b{slot}", slot, Role.SCRATCH, layout.size) for slot, layout in enumerate(layouts, 4)]
    loaded = load_operations([operation], buffers, chip=CHIP)
    surfaces = [np.ndarray(layout.shape, np.float16, loaded.buffers[buffer.name].data, 0, layout.strides)
                for layout, buffer in zip(layouts, buffers, strict=True)]
    for surface, values in zip(surfaces, inputs, strict=False):
        surface[...] = values
    report = loaded.run()
    return surfaces[-1], report


def draw(seed: int, shape: tuple[int, ...], special: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    x = (rng.standard_normal(shape) * 3).astype(np.float16)
    if special:
        some = x.reshape(-1)[::11]
        some[:] = rng.choice(np.float16([0, -0.0, np.inf, -np.inf, 65504, 6e-8, -1, 300]), some.size)
    return x


def rounded(values: np.ndarray) -> np.ndarray:
    with np.errstate(all="ignore"):
        return np.where(np.isnan(values), 0, values).astype(np.float16)


FUNCTIONS = {
    Binary.ADD: np.add, Binary.MULTIPLY: np.multiply, Binary.MAXIMUM: np.maximum, Binary.MINIMUM: np.minimum,
    Binary.SQUARE_SUM: lambda a, b: (a + b) * (a + b),
}


def entered(op: Any, x: np.ndarray) -> np.ndarray:
    """The first operand as it enters the arithmetic, a zero without its sign."""
    x = x.astype(np.float32) + np.float32(0)
    x = np.maximum(x, 0) if op.first_relu else x
    x = x * np.float32(op.pre_scale)
    x = -x if op.negate else x
    return np.abs(x) if op.absolute else x


def affine(op: Any, value: np.ndarray) -> np.ndarray:
    value = np.where(np.isnan(value), np.float32(0), value) * np.float32(op.scale)
    value = np.where(np.isnan(value), np.float32(0), value) + np.float32(op.bias)
    return np.maximum(np.nan_to_num(value, nan=0, posinf=np.inf, neginf=-np.inf), 0) if op.relu else value


flags = st.fixed_dictionaries({
    "pre_scale": st.sampled_from([1.0, -1.0, 0.5]), "absolute": st.booleans(), "negate": st.booleans(),
    "first_relu": st.booleans(), "scale": st.sampled_from([1.0, 2.0, 0.0]), "bias": st.sampled_from([0.0, -0.5]),
    "relu": st.booleans(),
})


@settings(max_examples=80, deadline=None)
@given(flags, st.sampled_from(list(Binary)), st.booleans(), st.booleans(), st.integers(0, 999),
       st.sampled_from([FLAT, (2, 2, 2, 3, 33), (1, 1, 1, 40, 1000)]))
def test_two_operands(options: dict[str, Any], function: Binary, subtract: bool, clamp: bool, seed: int,
                      shape: Shape) -> None:
    a, b = draw(seed, shape), draw(seed + 1, shape)
    op = Elementwise(first=access(4, shape), second=access(5, shape), result=access(6, shape), function=function,
                     subtract=subtract, second_relu=clamp, **options)
    with np.errstate(all="ignore"):
        y = np.maximum(b, 0).astype(np.float32) if clamp else b.astype(np.float32) + np.float32(0)
        expected = affine(op, FUNCTIONS[function](entered(op, a), -y if subtract else y))
    found, report = run(op, shape, a, b)
    np.testing.assert_array_equal(found, rounded(expected))
    assert report.overflows == np.count_nonzero(np.isinf(found))
    assert report.tasks[0].infinite_inputs == np.count_nonzero(np.isinf(a)) + np.count_nonzero(np.isinf(b))


@settings(max_examples=40, deadline=None)
@given(flags, st.integers(0, 999), st.sampled_from([FLAT, (1, 2, 1, 90, 100)]))
def test_one_operand_small_and_tabulated(options: dict[str, Any], seed: int, shape: Shape) -> None:
    a = draw(seed, shape)
    op = Elementwise(first=access(4, shape), result=access(5, shape), **options)
    with np.errstate(all="ignore"):
        expected = affine(op, entered(op, a))
    np.testing.assert_array_equal(run(op, shape, a)[0], rounded(expected))


@pytest.mark.parametrize("axes", list(product((0, 1), repeat=5)))
def test_broadcasts(axes: tuple[int, ...]) -> None:
    shape: Shape = (2, 3, 2, 4, 5)
    small: Any = tuple(1 if hidden else extent for hidden, extent in zip(axes, shape, strict=True))
    a, b = draw(1, shape, False), draw(2, small, False)
    hidden = Access(slot=5, shape=shape, strides=tuple(  # type: ignore[arg-type]
        0 if h else s for h, s in zip(axes, layout_of(small).strides, strict=True)))
    for second in (access(5, small), hidden):
        op = Elementwise(first=access(4, shape), second=second, result=access(6, shape), function=Binary.ADD)
        np.testing.assert_array_equal(run(op, shape, a, b)[0], rounded(a.astype(np.float32) + b))


def test_special_values() -> None:
    inf = np.inf
    shape: Shape = (1, 1, 1, 1, 6)
    a, b = (np.float16(v).reshape(shape) for v in ([inf, np.nan, 0, 256, -0.0, 60000],
                                                   [-inf, 1, inf, 256, 0, -60000]))
    operands = {"first": access(4, shape), "second": access(5, shape), "result": access(6, shape)}
    found, report = run(Elementwise(**operands, function=Binary.ADD), shape, a, b)
    assert found.reshape(-1).tolist() == [0, inf, inf, 512, 0, 0]
    assert report.nan_inputs == 1
    found, _ = run(Elementwise(**operands, function=Binary.MULTIPLY, bias=1.0), shape, a, b)
    assert found.reshape(-1).tolist() == [-inf, inf, 1, inf, 1, -inf]
    found, _ = run(Elementwise(**operands, function=Binary.MAXIMUM), shape, a, b)
    assert found.reshape(-1).tolist() == [inf, inf, inf, 256, 0, 60000]


@pytest.mark.parametrize("options", [{}, {"subtract": True},
                                     {"subtract": True, "scale": 2.0, "bias": 1.0, "relu": True}])
def test_gain_offset_vectors(options: dict[str, Any]) -> None:
    vectors: Shape = (1, 3, 1, 2, 1)
    x, v = draw(1, FLAT, False), draw(2, vectors, False)
    op = GainOffset(first=access(4, FLAT), second=access(5, vectors), result=access(6, FLAT), **options)
    offset, gain = v[:, :, :, :1].astype(np.float32), v[:, :, :, 1:].astype(np.float32)
    expected = affine(op, (x.astype(np.float32) + (-offset if op.subtract else offset)) * gain)
    np.testing.assert_array_equal(run(op, FLAT, x, v)[0], rounded(expected))
    with pytest.raises(SimulationError, match="two rows"):
        run(GainOffset(first=access(4, FLAT), second=access(5, FLAT), result=access(6, FLAT)), FLAT, x, x)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(Reduce)), st.sampled_from(list(Root)), st.booleans(), st.integers(0, 99),
       st.sampled_from([FLAT, (2, 3, 2, 4, 5), (1, 2, 1, 300, 200)]))
def test_reductions(reduce: Reduce, root: Root, paired: bool, seed: int, shape: Shape) -> None:
    a, b = draw(seed, shape, False), draw(seed + 1, shape, False)
    out: Shape = (*shape[:2], 1, 1, 1)
    op = Reduction(first=access(4, shape), second=access(5, shape) if paired else None, result=access(6, out),
                   reduce=reduce, function=Binary.SQUARE_SUM, scale=0.5, bias=0.25, final_scale=1 / 16, epsilon=0.125,
                   root=root, subtract=paired)
    x = a.astype(np.float32)
    x = ((x - b) * (x - b) if paired else x * x) * np.float32(0.5) + np.float32(0.25)
    total = (x.astype(np.float64).sum(axis=(2, 3, 4)) if reduce is Reduce.SUM else x.max(axis=(2, 3, 4)))
    value = total.astype(np.float64) / 16 + 0.125
    with np.errstate(all="ignore"):
        value = {Root.NONE: value, Root.RECIPROCAL: 1 / value, Root.RSQRT: 1 / np.sqrt(value)}[root]
    np.testing.assert_array_equal(run(op, out, a, b)[0].reshape(value.shape), rounded(value))


def test_reductions_use_the_whole_range_and_quiet_roots() -> None:
    shape, out = (1, 4, 1, 1, 2), (1, 4, 1, 1, 1)
    x = np.float16([[65000, 504], [65504, 32], [0, -0.0], [-1, -3]]).reshape(shape)
    expected = {Root.NONE: [65504, np.inf, 0, -4], Root.RECIPROCAL: [np.float16(1 / 65504), np.float16(1 / 65536),
                np.inf, -0.25], Root.RSQRT: [np.float16(1 / 65504**0.5), np.float16(1 / 256), np.inf, 0]}
    for root, values in expected.items():
        op = Reduction(first=access(4, shape), result=access(5, out), root=root)  # type: ignore[arg-type]
        assert run(op, out, x)[0].reshape(-1).tolist() == [float(v) for v in values]  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(Pool)), st.tuples(st.integers(1, 3), st.integers(1, 3)),
       st.tuples(st.integers(1, 3), st.integers(1, 2)), st.integers(0, 99))
def test_pooling(pool: Pool, kernel: tuple[int, int], stride: tuple[int, int], seed: int) -> None:
    rng = np.random.default_rng(seed)
    source: Shape = (2, 3, 1, 6, 7)
    padding = (int(rng.integers(0, kernel[0])), int(rng.integers(0, kernel[1])))
    high, wide = ((e + 2 * p - k) // s + 1 for e, p, k, s in zip((6, 7), padding, kernel, stride, strict=True))
    out: Shape = (2, 3, 1, high, wide)
    scale = 1 / (kernel[0] * kernel[1]) if pool is Pool.AVERAGE else 1.0
    op = Pooling(first=access(4, source), result=access(5, out), pool=pool, kernel=kernel, stride=stride,
                 padding=padding, final_scale=scale)
    x = (rng.integers(-64, 65, source) / 16).astype(np.float16)
    fill = {Pool.AVERAGE: 0, Pool.MAXIMUM: -np.inf, Pool.MINIMUM: np.inf}[pool]
    padded = np.pad(x.astype(np.float32), ((0, 0),) * 3 + ((padding[0], 9), (padding[1], 9)), constant_values=fill)
    function = {Pool.AVERAGE: np.sum, Pool.MAXIMUM: np.max, Pool.MINIMUM: np.min}[pool]
    expected = np.empty(out, np.float32)
    for h, w in product(range(high), range(wide)):
        window = padded[..., h * stride[0]:h * stride[0] + kernel[0], w * stride[1]:w * stride[1] + kernel[1]]
        expected[..., h, w] = function(window, axis=(-2, -1)) * np.float32(scale)
    np.testing.assert_array_equal(run(op, out, x)[0], rounded(expected))


def test_integers_in_and_out() -> None:
    shape: Shape = (1, 1, 1, 2, 4)
    layout = layout_of(shape, DType.INT8)
    buffers = [Buffer("x", 4, Role.INPUT, layout.size), Buffer("y", 5, Role.OUTPUT, layout.size)]
    op = Elementwise(first=access(4, shape, DType.INT8), result=access(5, shape, DType.INT8), scale=1.5)
    loaded = load_operations([op], buffers, chip=CHIP)
    x, y = (np.ndarray(shape, np.int8, loaded.buffers[name].data, 0, layout.strides) for name in "xy")
    x[...] = np.int8([[-128, -2, -1, 0], [1, 2, 3, 127]])
    report = loaded.run()
    assert y.reshape(-1).tolist() == [-128, -3, -2, 0, 2, 3, 4, 127]
    assert (report.tasks[0].low, report.tasks[0].high) == (-128, 127)


def test_shapes_that_do_not_fit_are_refused() -> None:
    x = draw(1, FLAT, False)
    wide: Shape = (1, 3, 1, 5, 8)
    for op, text in ((Elementwise(first=access(4, FLAT), result=access(5, wide)), "does not broadcast"),
                     (Reduction(first=access(4, FLAT), result=access(5, FLAT)), "reducing .* gives"),
                     (Pooling(first=access(4, FLAT), result=access(5, (1, 2, 1, 5, 7))), "keeps N, C and D"),
                     (Pooling(first=access(4, FLAT), second=access(4, FLAT), result=access(5, FLAT)), "one operand")):
        with pytest.raises(SimulationError, match=text):
            run(op, wide, x)
