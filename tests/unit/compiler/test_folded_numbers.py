"""Weights and vectors folded all at once are, bit for bit, what the pass makes of one node after the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openane.compiler.patch.fold_vectors import Vectors, fold
from openane.compiler.patch.fold_weights import CHUNK, round_to_half, scaled
from openane.compiler.patch.writer import _held, _held_exactly
from openane.compiler.weights.layout_records import ConstantRecord, Fold, FoldOperation, Route
from openane.graph import Node, TensorType, Value
from openane.passes.fold_affine import refolded

EVERY_HALF = np.arange(1 << 16, dtype=np.uint16).view(np.float16)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_rounding_is_numpys_conversion(kind: type[np.floating[Any]]) -> None:
    """Every number fp16 holds, every one halfway between two, and their neighbours."""
    halves = np.sort(EVERY_HALF[np.isfinite(EVERY_HALF)].astype(kind))
    middles = (halves[1:] + halves[:-1]) / 2
    numbers = np.concatenate([halves, middles, np.nextafter(middles, -np.inf), np.nextafter(middles, np.inf), [-1e-30]])
    numbers = numbers.astype(kind)
    place = np.empty_like(numbers)
    round_to_half(numbers, place, np.empty_like(numbers))
    assert np.array_equal(place.astype(np.float16).view(np.uint16), numbers.astype(np.float16).view(np.uint16))
    assert np.array_equal(place, numbers.astype(np.float16).astype(kind))
    beyond = np.array([65520, 1e9, np.inf, np.nan], kind)
    place = np.empty_like(beyond)
    round_to_half(beyond, place, np.empty_like(beyond))
    assert not (place < 65520).any()


@settings(max_examples=12, deadline=None)
@given(seed=st.integers(0, 999), shape=st.sampled_from([(1, 7, 9), (1, 3, CHUNK + 5), (40, 30, 1), (CHUNK, 2, 1)]),
       count=st.integers(1, 3), kind=st.sampled_from([np.float16, np.float32, np.float64]))
def test_scaling_rounds_after_every_gain(seed: int, shape: tuple[int, int, int], count: int, kind: Any) -> None:
    random = np.random.default_rng(seed)
    weight = (random.standard_normal(shape) * 10.0 ** random.integers(-7, 1, shape)).astype(kind)
    gains = [random.uniform(-2, 2, shape[1]) for _ in range(count)]
    wanted = weight.astype(np.float16)
    for gain in gains:
        wanted = (wanted.astype(np.float64) * gain[:, None]).astype(np.float16)
    found, largest = scaled(weight, gains)
    assert np.array_equal(found.view(np.uint16), wanted.view(np.uint16))
    assert largest == np.abs(weight.astype(np.float16)).max()


class Chain:
    """A convolution and what is folded into it: as nodes, and as a route."""

    def __init__(self, random: np.random.Generator, number: int, kinds: list[FoldOperation], bias: bool) -> None:
        self.random, self.number = random, number
        self.arrays: dict[str, np.ndarray] = {}
        self.channels = int(random.integers(1, 6))
        self.type = TensorType("fp16", (1, self.channels, 4, 4))
        weight = self.constant("w", (self.channels, 3, 2, 2))
        operands = {"x": Value("x", TensorType("fp16", (1, 3, 5, 5))), "weight": weight}
        operands |= {"bias": self.constant("b", (self.channels,))} if bias else {}
        self.conv, self.users, self.folds = Node("conv", operands, (Value("y", self.type),)), list[Node](), list[Fold]()
        for kind in kinds:
            self.add(kind)

    def constant(self, name: str, shape: tuple[int, ...], low: float = -1.0) -> Value:
        name = f"{self.number}_{name}_{len(self.arrays)}"
        self.arrays[name] = self.random.uniform(low, 1, shape).astype(np.float16)
        return Value(name, TensorType("fp16", shape), self.arrays[name])

    def add(self, kind: FoldOperation) -> None:
        x = self.users[-1].output if self.users else self.conv.output
        if kind is FoldOperation.NORM:
            given = {name: self.constant(name, (self.channels,), 0.1) for name in ("mean", "variance", "gamma", "beta")
                     if name in ("mean", "variance") or self.random.random() < 0.7}
            given["epsilon"] = self.constant("epsilon", (), 0.01)
            names: tuple[str | None, ...] = tuple(given[name].name if name in given else None for name in (
                "mean", "variance", "gamma", "beta", "epsilon"))
        else:
            single = self.random.random() < 0.3
            vector = self.constant("v", () if single else (1, self.channels, 1, 1), 0.1)
            given = {"x": vector, "y": x} if kind is FoldOperation.SUBTRACT_FROM else {"x": x, "y": vector}
            names = (vector.name,)
        op = "sub" if kind is FoldOperation.SUBTRACT_FROM else str(kind)
        self.users.append(Node(op, {"x": x, **given}, (Value(f"{kind}{len(self.users)}", self.type),)))
        self.folds.append(Fold(kind, names))

    def route(self) -> Route:
        bias = self.conv.get("bias")
        return Route(self.conv["weight"].name, (1, self.channels, 12), None if bias is None else bias.name,
                     tuple(self.folds), True, ())


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), chains=st.lists(st.tuples(st.lists(st.sampled_from(list(FoldOperation)), max_size=4),
                                                           st.booleans()), min_size=1, max_size=5))
def test_vectors_of_all_chains_at_once(seed: int, chains: list[tuple[list[FoldOperation], bool]]) -> None:
    random = np.random.default_rng(seed)
    made = [Chain(random, number, kinds, bias) for number, (kinds, bias) in enumerate(
        sorted(chains, key=lambda chain: -len(chain[0])))]
    arrays = {name: array for chain in made for name, array in chain.arrays.items()}
    vectors = Vectors([chain.route() for chain in made],
                      {name: ConstantRecord("fp16", array.shape) for name, array in arrays.items()})
    folded = fold(vectors, vectors.pool(arrays))
    assert folded is not None
    for number, (chain, start) in enumerate(zip(made, vectors.starts, strict=False)):
        part = slice(start, start + chain.channels)
        gains = [gain[part] for gain in folded.gains[:len(chain.folds)]]
        weight = arrays[chain.route().weight or ""].reshape(1, chain.channels, -1)
        halves, largest = scaled(weight, gains) if gains else (weight, 0.0)
        wanted = refolded(chain.conv, chain.users)
        assert _held(largest, gains) <= _held_exactly(weight, gains)
        if wanted is None:
            assert not _held_exactly(weight, gains)
            continue
        assert np.array_equal(halves.reshape(-1), wanted["weight"].array().reshape(-1))
        bias = wanted.get("bias")
        assert bool(folded.biased[number]) == (bias is not None)
        assert np.array_equal(folded.bias[part], np.zeros(chain.channels) if bias is None else bias.array())


def test_numbers_nobody_holds_are_refused() -> None:
    chain = Chain(np.random.default_rng(0), 0, [FoldOperation.NORM, FoldOperation.DIVIDE], True)
    vectors = Vectors([chain.route()], {name: ConstantRecord("fp16", array.shape) for name,
                                        array in chain.arrays.items()})
    for name, number in ((chain.folds[1].operands[0], 0.0), (chain.folds[0].operands[1], -1.0),
                         (chain.folds[0].operands[0], np.inf)):
        assert isinstance(name, str)
        changed = {**chain.arrays, name: np.full_like(chain.arrays[name], number)}
        with np.errstate(all="ignore"):
            assert fold(vectors, vectors.pool(changed)) is None
    gains = [np.array([1e5, 1.0])]
    assert not _held_exactly(np.ones((1, 2, 3), np.float16), gains)
    assert not _held(1.0, gains)
