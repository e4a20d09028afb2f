"""The compiled loop lays out weights as numpy does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.needs import library

from openane.cache import Cache
from openane.chips import get_chip
from openane.compiler.weights import lay_out
from openane.compiler.weights.pack import pack_dense, pack_sparse
from openane.machine_code import machine
from openane.machine_code.laying import LAY
from openane.machine_code.patience import Layer, Patience


class Loop:
    """The loop, and how often it was called."""

    def __init__(self, found: Layer) -> None:
        self._found, self.calls, self.at_hand = found, 0, True

    def __call__(self, *arguments: object) -> None:
        self.calls += 1
        self._found(*arguments)

    def layer(self, count: int) -> Layer | None:
        """What `patience` gives."""
        return self if self.at_hand else None


@pytest.fixture(scope="module")
def loop(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Loop]:
    library("numba")
    with mock.patch.object(machine, "_folders", return_value=[Cache(Path(tmp_path_factory.mktemp("code")))]):
        found = Loop(machine.functions([LAY], "laying")[0])
    with mock.patch.multiple(lay_out, LEAST=1, patience=lambda: found):
        yield found


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(chip=st.sampled_from(["h13", "h14", "h15", "h16"]), groups=st.integers(1, 3),
       channels=st.sampled_from([8, 16, 24, 64, 100, 256]), inputs=st.integers(1, 50), seed=st.integers(0, 1000),
       kernel=st.sampled_from([(1, 1), (3, 3), (2, 5)]), lanes=st.sampled_from([2, 4, 8, 16, 32]),
       zeros=st.sampled_from([0, 0, 0.01]), bias=st.booleans(), table=st.booleans())
def test_bytes_are_the_same(loop: Loop, chip: str, groups: int, channels: int, inputs: int, seed: int,
                            kernel: tuple[int, int], lanes: int, zeros: float, bias: bool, table: bool) -> None:
    random, form = np.random.default_rng(seed), get_chip(chip).limits.coefficients
    weights = random.standard_normal((groups, channels, inputs, *kernel)).astype(np.float16)
    weights[random.random(weights.shape) < zeros] = 0
    biases = random.standard_normal((groups, channels)).astype(np.float16) if bias else None
    head = random.bytes(form.table.size) if table else None
    flat = weights.reshape(groups, channels, -1)
    made = []
    for loop.at_hand in (True, False):
        made.append((pack_dense(form, flat, biases, lanes, head).data,
                     pack_sparse(form, weights, biases, lanes, head).data))
    assert made[0] == made[1]


def test_the_loop_was_called(loop: Loop) -> None:
    loop.at_hand, before = True, loop.calls
    form = get_chip("h13").limits.coefficients
    weights = np.ones((1, 256, 32, 3, 3), np.float16)
    assert pack_dense(form, weights.reshape(1, 256, -1), None, 16).data
    assert pack_sparse(form, weights, None, 16).data
    assert loop.calls == before + 2


def test_few_weights_do_not_wait_for_a_loop() -> None:
    patience = mock.Mock(Patience)
    with mock.patch.object(lay_out, "patience", patience):
        assert lay_out.loop_for(np.zeros(lay_out.LEAST - 1, np.float16), [16]) is None
        assert lay_out.loop_for(np.zeros(lay_out.LEAST, np.float16), [2]) is None
    assert not patience.mock_calls
