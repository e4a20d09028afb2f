"""Convolutions of many groups, and with kernels that are nearly all zero: the bits of one group alone, of all terms."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import coefficients_at, layout_of
from support.placement import dense_channels, grouped_channels, stream_sizes

from openane.chips import get_chip
from openane.chips.coefficients import Channel
from openane.engine import Access, Coefficients, CoefficientStream, Convolution, Post
from openane.program import Buffer, Role
from openane.simulator import load_operations
from openane.simulator.blocks import apart
from openane.simulator.report import TaskReport
from openane.simulator.weights import ConvolutionWeights

Shape = tuple[int, int, int, int, int]
ARITHMETIC = st.sampled_from(["exact", "fast"])


def packed(weights: np.ndarray, placed: list[Channel]) -> tuple[bytes, Coefficients]:
    """Constants that hold weights [channels, rows] at the given places, and where they lie."""
    section = {core: np.zeros(size // 2, np.float16) for core, size in stream_sizes(placed, weights.shape[1]).items()}
    for channel, row in zip(placed, weights, strict=True):
        section[channel.core][channel.weights:channel.weights + len(row) * channel.step:channel.step] = row
    streams, data = [], b""
    for core, values in sorted(section.items()):
        streams.append(CoefficientStream(core, len(data), values.nbytes))
        data += values.tobytes()
    return data, coefficients_at(1, tuple(streams))


def computed(x: np.ndarray, weights: np.ndarray, result: Shape, arithmetic: str, generation: str = "h13",
             **attributes: object) -> tuple[np.ndarray, TaskReport]:
    """A convolution of x [N, C, D, H, W] with weights [sets, channels, rows]: words of the result, and the report."""
    sets, channels, rows = weights.shape
    if attributes.get("unicast"):
        placed = dense_channels(sets * channels, rows, 1)
    else:
        placed = (dense_channels(channels, rows, 1) if sets == 1 else grouped_channels(sets, channels, rows, 1))
    constants, coefficients = packed(weights.reshape(-1, rows), placed)
    layouts = [layout_of(shape) for shape in (x.shape, result)]
    source, target = (Access(slot=slot, shape=layout.shape, strides=layout.strides)
                      for slot, layout in enumerate(layouts, 4))
    operation = Convolution(source=source, result=target, coefficients=coefficients,
                            **attributes)  # type: ignore[arg-type]
    buffers = [Buffer(name, slot, Role.SCRATCH, layout.size, layout)
               for slot, (name, layout) in enumerate(zip("xy", layouts, strict=True), 4)]
    loaded = load_operations([operation], buffers, constants, arithmetic=arithmetic, chip=get_chip(generation))
    np.ndarray(x.shape, np.float16, loaded.buffers["x"].data, 0, layouts[0].strides)[...] = x
    report = loaded.run().tasks[0]
    return np.ndarray(result, np.uint16, loaded.buffers["y"].data, 0, layouts[1].strides).copy(), report


def numbers(rng: np.random.Generator, shape: tuple[int, ...], special: int = 0) -> np.ndarray:
    """fp16 numbers of many magnitudes, with some infinities and NaN."""
    x = (rng.standard_normal(shape) * 2.0 ** rng.integers(-20, 10, shape)).astype(np.float16)
    if special:
        x.reshape(-1)[rng.integers(0, x.size, special)] = rng.choice(np.float16([np.inf, -np.inf, np.nan]), special)
    return x


@settings(max_examples=50, deadline=None)
@given(st.integers(0, 2**32 - 1), ARITHMETIC, st.sampled_from(["h13", "h17"]), st.booleans(), st.integers(0, 2),
       st.sampled_from([1, 2, 5, 40]), st.sampled_from([(1, 1, 1), (1, 3, 3), (1, 2, 1)]), st.integers(0, 3))
def test_a_group_has_the_bits_it_has_alone(seed: int, arithmetic: str, generation: str, shared: bool, unicast: int,
                                           groups: int, kernel: tuple[int, int, int], special: int) -> None:
    rng = np.random.default_rng(seed)
    outputs = int(rng.integers(1, 6))
    inputs = unicast * outputs or int(rng.choice([1, 4, 40]))
    x = numbers(rng, (groups, inputs, 1, 5, 6), special)
    sets = 1 if shared else groups
    weights = numbers(rng, (sets, outputs, (unicast or inputs) * int(np.prod(kernel))))
    weights[rng.random(weights.shape) < 0.3] = 0
    result: Shape = (groups, outputs, 1, 5, 6)
    kwargs = {"unicast": unicast, "kernel": kernel, "shared": shared, "padding": (0, kernel[1] // 2, kernel[2] // 2),
              "post": Post(scale=0.5), "input_relu": bool(rng.integers(2))}
    found, report = computed(x, weights, result, arithmetic, generation, **kwargs)
    alone = [computed(x[g:g + 1], weights[g:g + 1] if sets > 1 else weights, (1, *result[1:]), arithmetic, generation,
                      **kwargs) for g in range(groups)]
    np.testing.assert_array_equal(found, np.concatenate([words for words, _ in alone]))
    for name in ("nan_inputs", "infinite_inputs", "overflows"):
        assert getattr(report, name) == sum(getattr(one, name) for _, one in alone)
    assert report.low == min(one.low for _, one in alone if one.low is not None)
    assert report.high == max(one.high for _, one in alone if one.high is not None)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), ARITHMETIC, st.sampled_from([1.0, -1.0, 0.375, 300.0]), st.integers(0, 1),
       st.sampled_from([(1, 1), (2, 1), (2, 2)]), st.booleans())
def test_kernels_with_one_weight_each(seed: int, arithmetic: str, weight: float, special: int, steps: tuple[int, int],
                                      single: bool) -> None:
    rng = np.random.default_rng(seed)
    groups, inputs, outputs = 16, 4, 40
    down, across = steps
    weights = np.zeros((1, outputs, inputs * 9), np.float16)
    weights[0, np.arange(outputs), rng.integers(0, 3 if single else inputs * 9, outputs)] = weight
    x = numbers(rng, (groups, inputs, 1, 8, 8), special)
    kwargs = {"kernel": (1, 3, 3), "shared": True, "padding": (0, 1, 1), "stride": (1, down, across),
              "post": Post(bias=0.25), "input_relu": bool(rng.integers(2))}
    result: Shape = (groups, outputs, 1, 8 // down, 8 // across)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("openane.simulator.convolution.MAP_FROM", 1)
        found, report = computed(x, weights, result, arithmetic, **kwargs)
        patch.setattr(ConvolutionWeights, "studied", lambda self: self)
        expected, plain = computed(x, weights, result, arithmetic, **kwargs)
    np.testing.assert_array_equal(found, expected)
    assert report == plain


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), ARITHMETIC, st.sampled_from([0, 1, 40]), st.integers(1, 9))
def test_terms_without_a_weight(seed: int, arithmetic: str, special: int, present: int) -> None:
    rng = np.random.default_rng(seed)
    weights = np.zeros((1, 3, 36), np.float16)
    weights[:, :, rng.choice(36, present, replace=False)] = numbers(rng, (1, 3, present))
    x = numbers(rng, (7, 4, 1, 6, 5), special)
    kwargs = {"kernel": (1, 3, 3), "shared": True, "padding": (0, 1, 1)}
    found, report = computed(x, weights, (7, 3, 1, 6, 5), arithmetic, **kwargs)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConvolutionWeights, "studied", lambda self: self)
        expected, plain = computed(x, weights, (7, 3, 1, 6, 5), arithmetic, **kwargs)
    np.testing.assert_array_equal(found, expected)
    assert report == plain


def test_elements_that_share_memory_are_known() -> None:
    flat = np.zeros(64, np.uint16)
    assert apart(flat.reshape(4, 4, 4).transpose(2, 0, 1))
    assert apart(np.broadcast_to(flat[:4], (1, 4)))
    assert not apart(np.broadcast_to(flat[:4], (3, 4)))
    assert not apart(np.lib.stride_tricks.sliding_window_view(flat, 3))
