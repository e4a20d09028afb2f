"""The compiled loops take weights out of streams as numpy does, and say the same of bodies that are not in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13 import by_rows, coefficients_at, held
from support.needs import library

from openane.cache import Cache
from openane.chips import get_chip
from openane.compiler.weights.pack import pack_dense, pack_sparse
from openane.engine import Coefficients, CoefficientStream, Geometry, Packing
from openane.errors import SimulationError
from openane.machine_code import machine
from openane.machine_code.patience import Unpacker, Unskipper
from openane.machine_code.unpacking import UNPACK, UNSKIP
from openane.program.verify.sparse import sparse_defect
from openane.simulator import bodies
from openane.simulator import coefficients as reading
from openane.simulator import sparse as skipping
from openane.simulator.weights import term_order

CHIPS = ["h13", "h14", "h15", "h16"]
SPECIAL = np.array([0x7C00, 0xFC00, 0x7E00, 0xFE01, 0x8000, 0x0001], np.uint16)
drawn = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


class Loops:
    """The two loops, in place of `patience`."""

    def __init__(self, unpack: Unpacker, unskip: Unskipper) -> None:
        self.unpack, self.unskip = unpack, unskip

    def unpacker(self, count: int) -> Unpacker:
        return self.unpack

    def unskipper(self, count: int) -> Unskipper:
        return self.unskip


class Numpy:
    """No loops."""

    def unpacker(self, count: int) -> None:
        return None

    def unskipper(self, count: int) -> None:
        return None


@pytest.fixture(scope="module")
def loops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loops]:
    library("numba")
    with mock.patch.object(machine, "_folders", return_value=[Cache(Path(tmp_path_factory.mktemp("code")))]):
        yield Loops(*machine.functions([UNPACK, UNSKIP], "unpacking"))


def _with(kind: Loops | Numpy, gather: reading.Gather, store: np.ndarray, order: np.ndarray) -> np.ndarray:
    with mock.patch.object(reading, "patience", return_value=kind):
        values, finite = gather.read_weights(store, order)
    assert finite is None or finite is bool(np.isfinite(values).all())
    return values


@drawn
@given(chip=st.sampled_from(CHIPS), groups=st.integers(1, 3), channels=st.integers(1, 90), inputs=st.integers(1, 40),
       kernel=st.sampled_from([(1, 1, 1), (1, 3, 3), (2, 2, 3)]), lanes=st.sampled_from([1, 2, 4, 8, 16, 32]),
       bias=st.booleans(), specials=st.booleans(), shift=st.integers(0, 3), seed=st.integers(0, 99))
def test_dense_streams(loops: Loops, chip: str, groups: int, channels: int, inputs: int, kernel: tuple[int, int, int],
                       lanes: int, bias: bool, specials: bool, shift: int, seed: int) -> None:
    random, form = np.random.default_rng(seed), get_chip(chip).limits.coefficients
    rows = inputs * int(np.prod(kernel))
    weights = random.standard_normal((groups, channels, rows)).astype(np.float16)
    if specials:
        weights.reshape(-1).view(np.uint16)[random.integers(0, weights.size, 4)] = random.choice(SPECIAL, 4)
    biases = random.standard_normal((groups, channels)).astype(np.float16) if bias else None
    packed = pack_dense(form, weights, biases, lanes)
    store = np.frombuffer(bytes(shift) + bytes(packed.data), np.uint8)
    streams = tuple(CoefficientStream(core, offset + shift, size) for core, offset, size in packed.streams)
    coefficients = coefficients_at(1, streams, lanes=lanes, bias=bias)
    geometry, order = Geometry(groups, channels, rows), term_order(rows, kernel)
    gather = reading.plan(geometry, coefficients, lambda slot: store, form, "task 0")
    made = _with(loops, gather, store, order)
    np.testing.assert_array_equal(made.view(np.int32), _with(Numpy(), gather, store, order).view(np.int32))


def _sparse(chip: str, channels: int, inputs: int, kernel: tuple[int, int], lanes: int, zeros: float, bias: bool,
            random: np.random.Generator) -> tuple[np.ndarray, bytes, Coefficients]:
    weights = random.standard_normal((1, channels, inputs, *kernel)).astype(np.float16)
    weights[random.random(weights.shape) < zeros] = 0
    biases = random.standard_normal((1, channels)).astype(np.float16) if bias else None
    packed = pack_sparse(get_chip(chip).limits.coefficients, weights, biases, lanes)
    return weights, bytes(packed.data), coefficients_at(1, packed.streams, lanes=lanes, bias=bias,
                                                        packing=Packing.SPARSE)


sparse_cases = given(chip=st.sampled_from(CHIPS), channels=st.integers(1, 70), inputs=st.integers(1, 40),
                     kernel=st.sampled_from([(1, 1), (3, 3), (2, 3)]), lanes=st.sampled_from([1, 2, 4, 8, 16, 32]),
                     zeros=st.sampled_from([0, 0.01, 0.5, 1]), bias=st.booleans(), seed=st.integers(0, 99))


@drawn
@sparse_cases
def test_zero_skipping_streams(loops: Loops, chip: str, channels: int, inputs: int, kernel: tuple[int, int], lanes: int,
                               zeros: float, bias: bool, seed: int) -> None:
    weights, data, coefficients = _sparse(chip, channels, inputs, kernel, lanes, zeros, bias,
                                          np.random.default_rng(seed))
    geometry, form = Geometry(1, channels, inputs * kernel[0] * kernel[1]), get_chip(chip).limits.coefficients
    found = {}
    for kind in (loops, Numpy()):
        with mock.patch.object(skipping, "patience", return_value=kind):
            found[type(kind)] = reading.unpack_sparse(geometry, coefficients, held(data), form, "task 0", kernel)
    (made, biases, finite), (wanted, wanted_biases, _) = found[Loops], found[Numpy]
    np.testing.assert_array_equal(made[0], by_rows(weights[0]))
    np.testing.assert_array_equal(made.view(np.int32), wanted.view(np.int32))
    assert finite is True
    assert biases is None if wanted_biases is None else np.array_equal(biases, wanted_biases)


@drawn
@sparse_cases
def test_bodies_that_are_not_as_they_must_be(loops: Loops, chip: str, channels: int, inputs: int,
                                             kernel: tuple[int, int], lanes: int, zeros: float, bias: bool,
                                             seed: int) -> None:
    random, form = np.random.default_rng(seed), get_chip(chip).limits.coefficients
    _, data, coefficients = _sparse(chip, channels, inputs, kernel, lanes, zeros, bias, random)
    changed = bytearray(data)
    changed[random.integers(len(data))] ^= 1 << random.integers(8)
    geometry = Geometry(1, channels, inputs * kernel[0] * kernel[1])
    with mock.patch.object(bodies, "patience", return_value=loops):
        follow = bodies.follower(0)
    assert follow is not None
    wanted = sparse_defect(geometry, kernel, coefficients, bytes(changed), form)
    assert sparse_defect(geometry, kernel, coefficients, bytes(changed), form, follow) == wanted
    with mock.patch.object(skipping, "patience", return_value=loops):
        if not wanted:
            made, _, finite = reading.unpack_sparse(geometry, coefficients, held(changed), form, "task 0", kernel)
            assert finite is bool(np.isfinite(made).all())
            return
        with pytest.raises(SimulationError):
            reading.unpack_sparse(geometry, coefficients, held(changed), form, "task 0", kernel)
