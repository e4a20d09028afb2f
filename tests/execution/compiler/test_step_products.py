"""Products of two tensors of whole steps, rounded to whole steps as they are stored."""

from __future__ import annotations

import numpy as np
import pytest
from support.quantisation import quantised, steps

import openane as ane
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.ops.rounding import WHOLE
from openane.ops.step_products import step_product
from openane.passes.order import simplify

FIRST, SECOND, RESULT = 0.0371, 0.0253, 0.0919


def products(turned: tuple[bool, bool], split: bool) -> tuple[Graph, dict[str, np.ndarray]]:
    """Matrices of two inputs that are quantised, in steps of their own and with zero points of their own; `split`:
    quantised as rows that are split into heads."""
    rng, builder = np.random.default_rng(3), GraphBuilder("products")
    shapes = [(2, 24, 10) if turned[0] else (2, 10, 24), (2, 12, 24) if turned[1] else (2, 24, 12)]
    made, inputs = [], {}
    for name, shape, step, zero in zip("ab", shapes, (FIRST, SECOND), (117, 128), strict=True):
        outer = (shape[1], 2 * shape[2]) if split else shape
        x = quantised(builder, builder.input(name, "fp16", outer), step, zero, 0, 255)
        if split:
            heads = builder.single("reshape", x=x, shape=[shape[1], 2, shape[2]])
            x = builder.single("transpose", x=heads, perm=[1, 0, 2])
        made.append(x)
        inputs[name] = rng.standard_normal(outer).astype(np.float16)
    y = builder.single("matmul", x=made[0], y=made[1], transpose_x=turned[0], transpose_y=turned[1])
    return builder.finish({"y": quantised(builder, y, RESULT, 131, 0, 255)}), inputs


@pytest.mark.parametrize("split", [False, True], ids=["whole", "heads"])
@pytest.mark.parametrize("turned", [(False, False), (False, True), (True, False), (True, True)])
def test_products_of_steps_become_the_steps_they_are_nearest_to(turned: tuple[bool, bool], split: bool) -> None:
    graph, inputs = products(turned, split)
    found = ane.run(ane.compile(graph), inputs, "simulator?arithmetic=exact")["y"]
    sides = []
    for name, step, zero, turn in zip("ab", (FIRST, SECOND), (117, 128), turned, strict=True):
        side = steps(inputs[name], step, zero, 0, 255)
        side = side.reshape(len(side), 2, -1).transpose(1, 0, 2) if split else side
        sides.append(side.swapaxes(1, 2) if turn else side)
    exact = sides[0] @ sides[1] * (np.float64(np.float32(FIRST)) * np.float32(SECOND) / np.float32(RESULT))
    wanted = np.clip(np.rint(exact) + 131, 0, 255) - 131
    clear = np.abs(np.abs(exact - np.floor(exact)) - 0.5) > 5e-4
    off = np.abs(found.astype(np.float64) / np.float32(RESULT) - wanted)
    assert off[clear].max() < 0.2, "the step and the result in fp16"
    assert off.max() < 1.2
    assert np.mean(clear) > 0.99
    assert np.ptp(wanted) > 100


def test_nothing_is_rounded_between_the_product_and_its_steps() -> None:
    graph, _ = products((False, False), False)
    names = [node.op for node in simplify(graph).nodes]
    assert names == ["nearest_steps", "concat", "nearest_steps", "nearest_steps", "concat", "matmul", "mul",
                     "nearest_steps"]


@pytest.mark.parametrize("size", [3e-5, 1e-3, 0.0102, 0.25, 1.0, 2.7])
def test_the_numbers_are_what_they_stand_for(size: float) -> None:
    made = step_product(size, 255, 128, 128)
    assert made is not None
    assert abs(made.first * sum(made.second) * made.scale / size - 1) < max(1.001 * made.error, 1e-12)
    assert made.error * 128 < (2.0 ** -10 if size > 1e-4 else 2.0 ** -8)
    assert abs(sum(made.whole) * made.scale - WHOLE) < 2.0 ** -20
    for number in (255 * made.first, *(128 * second for second in made.second), made.scale, *made.whole):
        assert float(np.float16(number)) == number


def test_an_operand_is_there_twice_only_where_results_would_be_other_steps() -> None:
    near, coarse, seldom = (step_product(*numbers) for numbers in ((0.25, 255, 128, 128), (0.0102, 255, 128, 128),
                                                                  (0.0102, 255, 128, 1)))
    assert [made and len(made.second) for made in (near, coarse, seldom)] == [1, 2, 1]


@pytest.mark.parametrize("size", [1e-15, 1e12])
def test_sizes_beyond_fp16_are_refused(size: float) -> None:
    assert step_product(size, 255, 255, 128) is None
