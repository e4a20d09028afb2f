"""Ranges that are seen at a part of an image decide where they are far from what matters; elsewhere the whole does."""

from __future__ import annotations

import numpy as np
import pytest

from openane.graph import Graph, RoundedArray
from openane.ops.build import GraphBuilder
from openane.ops.drawn_inputs import drawn
from openane.ops.evaluate import evaluate
from openane.passes import rescale
from openane.passes.exponent_choice import chosen, stay_as_they_are
from openane.passes.exponent_groups import said_of
from openane.passes.fold_affine import fold_affine
from openane.passes.folded_constants import unfolded
from openane.passes.glance import glanced
from openane.passes.ranges import Range, measured

SIDE, LAYERS, CHANNELS = 128, 3, 16


def _network(gain: float) -> Graph:
    """Convolutions of an image, each making numbers `gain` times as large as those it reads."""
    rng, builder = np.random.default_rng(1), GraphBuilder()
    value = builder.input("x", "fp16", (1, 4, SIDE, SIDE))
    for _ in range(LAYERS):
        terms = 9 * value.shape[1]
        weight = rng.standard_normal((CHANNELS, value.shape[1], 3, 3)) * gain * np.sqrt(2 / terms)
        value = builder.single("relu", x=builder.single("conv", x=value, weight=weight.astype(np.float16),
                                                        pad_type="same"))
    return builder.finish([value])


def test_what_is_in_range_by_far_is_not_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = _network(2.0)
    wanted = rescale.rescale(graph, [dict(drawn(graph))])

    def never(*_: object) -> None:
        raise AssertionError("ranges were measured on the whole")

    monkeypatch.setattr(rescale, "measured", never)
    made = rescale.rescale(graph, [drawn(graph)])
    assert made == wanted
    assert made.graph is graph


@pytest.mark.parametrize("gain", [2.0 ** -8, 2.0 ** -3, 2.0 ** 6])
def test_what_is_not_is_held_as_the_whole_asks(gain: float) -> None:
    graph = _network(gain)
    made, wanted = (rescale.rescale(graph, [sample]) for sample in (drawn(graph), dict(drawn(graph))))
    assert (made.exponents, made.sums, made.beyond) == (wanted.exponents, wanted.sums, wanted.beyond)
    assert wanted.exponents or wanted.sums


def test_samples_that_somebody_gives_are_looked_at_whole() -> None:
    graph = _network(2.0)
    said = said_of(graph)
    assert glanced(graph, said, [drawn(graph)]) is not None
    assert glanced(graph, said, [dict(drawn(graph))]) is None
    assert glanced(graph, said, [drawn(graph), drawn(graph, seed=1)]) is None


@pytest.mark.parametrize("gain", [2.0 ** power for power in range(-10, 9)])
def test_where_nothing_is_looked_for_nothing_is_found(gain: float) -> None:
    graph = _network(gain)
    said, times = said_of(graph), (4.0, 0.8)
    ranges = measured(graph, [drawn(graph)])
    nearby = {number: Range(seen.largest * times[0], seen.usual * times[1]) for number, seen in ranges.items()}
    wanted = chosen(graph, said, nearby)
    found = bool(wanted.values or wanted.sums)
    assert stay_as_they_are(graph, said, ranges, times) <= (not found)
    assert stay_as_they_are(graph, said, ranges, times) or not 1 <= gain <= 4


@pytest.mark.parametrize("several", [False, True])
def test_gains_that_were_folded_can_be_taken_behind_the_product(several: bool) -> None:
    rng, builder = np.random.default_rng(5), GraphBuilder()
    stated = rng.standard_normal((8, 4, 3, 3)).astype(np.float32)
    value = builder.single("conv", x=builder.input("x", "fp16", (1, 4, 6, 6)),
                           weight=RoundedArray(stated.astype(np.float16), stated))
    value = builder.single("batch_norm", x=value, mean=rng.standard_normal(8), variance=rng.uniform(0.5, 2, 8))
    if several:
        value = builder.single("mul", x=value, y=rng.uniform(0.5, 2, (1, 8, 1, 1)))
    plain = builder.finish({"y": value})
    node = fold_affine(plain, digits=True).nodes[0]
    made = unfolded(node)
    assert made is not None
    before, gain, offset = made
    assert before.get("bias") is None
    assert before["weight"].array() is plain.nodes[0]["weight"].digits()  # type: ignore[attr-defined]
    sample = {"x": rng.standard_normal((1, 4, 6, 6)).astype(np.float16)}
    found = evaluate(Graph(plain.inputs, (before,), before.outputs), sample)[node.output.name] * gain + offset
    assert np.allclose(found, evaluate(plain, sample)["y"], rtol=4e-3, atol=2e-2)  # of rounded weights
    assert unfolded(plain.nodes[0]) is None
