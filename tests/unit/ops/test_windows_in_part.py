"""Windows over a part of an image make numbers as large as those over the whole, whatever lies around it."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Node, Value
from openane.ops import windows_in_part as module
from openane.ops.build import Given, GraphBuilder
from openane.ops.evaluate import evaluate_node
from openane.ops.windows_in_part import windows_in_part

CHANNELS = 512


def _both(whole: tuple[int, int], part: tuple[int, int], op: str, **operands: Given) -> list[np.ndarray]:
    """The results of a node over an image of this size, and over a part of it."""
    node, x = _node(op, whole, **operands)
    image = np.random.default_rng(3).standard_normal(x.shape).astype(np.float32)
    found = windows_in_part(node, {id(x): image[:, :, :part[0], :part[1]]})
    assert found is not None
    return [evaluate_node(node, {id(x): image})[0], found[0]]


def _node(op: str, size: tuple[int, int], **operands: Given) -> tuple[Node, Value]:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, CHANNELS, *size))
    return builder.finish([builder.single(op, x=x, **operands)]).nodes[0], x


def _usual(array: np.ndarray) -> float:
    return float(np.sqrt(np.square(array, dtype=np.float64).mean()))


@pytest.mark.parametrize(("whole", "part", "made", "operands"), [
    ((28, 28), (8, 8), (8, 8), {"pad_type": "same"}),
    ((7, 7), (2, 2), (2, 2), {"pad_type": "same"}),
    ((7, 7), (1, 1), (1, 1), {"pad_type": "same"}),
    ((14, 14), (4, 4), (2, 2), {"pad_type": "custom", "pad": [1, 1, 1, 1], "strides": [2, 2]}),
    ((14, 13), (4, 13), (3, 11), {"pad_type": "valid"}),
    ((12, 12), (4, 4), (4, 4), {"pad_type": "custom", "pad": [2, 2, 2, 2], "dilations": [2, 2]}),
    ((6, 8), (2, 2), (2, 2), {"pad_type": "custom", "pad": [2, 0, 0, 2]}),
])
def test_sums_over_a_part_are_as_large(whole, part, made, operands) -> None:
    weight = np.random.default_rng(4).standard_normal((64, CHANNELS, 3, 3)).astype(np.float16)
    expected, found = _both(whole, part, "conv", weight=weight, **operands)
    assert found.shape[2:] == made
    assert _usual(found) == pytest.approx(_usual(expected), rel=0.1)


def test_one_window_over_everything_reads_what_is_padded_as_often() -> None:
    expected, found = _both((6, 6), (2, 6), "avg_pool", kernel_sizes=[7, 7], pad_type="custom", pad=[0, 1, 0, 1])
    assert found.shape == expected.shape
    image = np.random.default_rng(3).standard_normal((1, CHANNELS, 6, 6)).astype(np.float32)
    np.testing.assert_allclose(found[..., 0, 0], 3 * image[:, :, :2].sum((2, 3)) / 49, rtol=1e-5, atol=1e-6)


def test_windows_that_are_rounded_up_are_a_share_too() -> None:
    expected, found = _both((13, 13), (5, 5), "max_pool", kernel_sizes=[2, 2], strides=[2, 2], pad_type="valid",
                            ceil_mode=True)
    assert (expected.shape[2:], found.shape[2:]) == ((7, 7), (2, 2))
    np.testing.assert_array_equal(found, expected[..., :2, :2])


def test_a_part_of_the_channels_is_none_of_the_positions() -> None:
    node, x = _node("max_pool", (8, 8), kernel_sizes=[2, 2], pad_type="valid")
    assert windows_in_part(node, {id(x): np.zeros((1, 2, 8, 8), np.float32)}) is None


@pytest.mark.parametrize(("whole", "part", "kernel", "operands"), [
    ((28, 28), (8, 8), (3, 3), {"pad_type": "same"}),
    ((28, 28), (20, 20), (3, 3), {"pad_type": "same", "groups": 4}),
    ((28, 28), (20, 20), (5, 3), {"pad_type": "custom", "pad": [2, 1, 0, 1], "strides": [2, 1], "dilations": [1, 2]}),
    ((14, 14), (4, 4), (1, 1), {"pad_type": "valid", "strides": [2, 2], "groups": 8}),
    ((14, 14), (4, 4), (1, 1), {"pad_type": "valid"}),
    ((16, 40), (4, 40), (3, 3), {"pad_type": "same", "groups": 16}),
    ((64, 40), (64, 20), (3, 3), {"pad_type": "same"}),
])
@pytest.mark.parametrize("images", [1, 2])
def test_few_windows_are_those_of_the_reference(whole, part, kernel, operands, images: int,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    rng, builder, channels = np.random.default_rng(5), GraphBuilder(), 16
    x = builder.input("x", "fp16", (images, channels, *whole))
    weight = rng.standard_normal((32, channels // operands.get("groups", 1), *kernel)).astype(np.float16)
    made = builder.single("conv", x=x, weight=weight, bias=rng.standard_normal(32).astype(np.float16), **operands)
    node = builder.finish([made]).nodes[0]
    arrays = {id(x): rng.standard_normal((images, channels, *part)).astype(np.float32)}
    found = windows_in_part(node, arrays)
    monkeypatch.setattr(module, "convolved_in_part", lambda node, part: None)
    expected = windows_in_part(node, arrays)
    assert found is not None
    assert expected is not None
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-4, atol=1e-4)
