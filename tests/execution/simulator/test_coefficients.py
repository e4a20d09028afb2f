"""Unpacking of coefficients: streams made by the placement rules, the zero-skipping form, and Apple's own section."""

from __future__ import annotations

import hashlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import FORMAT, by_rows, coefficients_at, held
from support.placement import ALIGNMENT, blocks

from openane.engine import Coefficients, CoefficientStream, Packing
from openane.errors import SimulationError
from openane.simulator.coefficients import Geometry, unpack_sparse


def sparse_section(weights: np.ndarray, bias: np.ndarray | None, lanes: int) -> tuple[bytes, Coefficients]:
    """The zero-skipping form of weights [channels, inputs, height, width]."""
    bodies: dict[int, bytes] = {}
    channel = 0
    for core, width, count in blocks(len(weights), lanes):
        block = np.zeros((width, *weights.shape[1:]), np.float16)
        block[:count] = weights[channel:channel + count]
        head = np.zeros(width, np.float16)
        head[:count] = 0 if bias is None else bias[channel:channel + count]
        body = b"".join(sparse_input(block[:, i]) for i in range(weights.shape[1]))
        bodies[core] = bodies.get(core, b"") + (b"" if bias is None else head.tobytes()) \
            + len(body).to_bytes(3, "little") + body
        channel += count
    data, streams = b"", []
    for core in sorted(bodies):
        padded = bodies[core] + bytes(-len(bodies[core]) % ALIGNMENT)
        streams.append(CoefficientStream(core, len(data), len(padded)))
        data += padded
    return data, coefficients_at(1, tuple(streams), lanes=lanes, bias=bias is not None,
                              packing=Packing.SPARSE)


def sparse_input(block: np.ndarray) -> bytes:
    """One input channel's weights [lanes, height, width]: four phases, a grid of taps each, all lanes of a tap; there
    is room for four lanes at least."""
    block = np.concatenate([block, np.zeros((max(0, 4 - len(block)), *block.shape[1:]), block.dtype)])
    lanes, height, width = block.shape
    even = np.zeros((lanes, height + height % 2, width + width % 2), np.float16)
    even[:, :height, :width] = block
    phases = [even[:, row::2, column::2] for row in (0, 1) for column in (0, 1)]
    slots = np.concatenate([phase.transpose(1, 2, 0).reshape(-1) for phase in phases])
    out = b""
    for first in range(0, len(slots), 8):
        part = slots[first:first + 8]
        out += bytes([sum(2**i for i, value in enumerate(part) if value != 0)]) + part[part != 0].tobytes()
    return out


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 80), st.integers(1, 6), st.tuples(st.integers(1, 4), st.integers(1, 4)),
       st.sampled_from([1, 2, 4, 8, 16]), st.booleans(), st.integers(0, 999))
def test_zero_skipping_round_trip(channels: int, inputs: int, kernel: tuple[int, int], lanes: int, with_bias: bool,
                                  seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = (channels, inputs, *kernel)
    weights = (rng.integers(-1, 2, shape) * rng.random(shape)).astype(np.float16)
    bias = rng.standard_normal(channels).astype(np.float16) if with_bias else None
    data, coefficients = sparse_section(weights, bias, lanes)
    rows = inputs * kernel[0] * kernel[1]
    found, found_bias, _ = unpack_sparse(Geometry(1, channels, rows), coefficients, held(data), FORMAT, "task 0",
                                         kernel)
    np.testing.assert_array_equal(found[0], by_rows(weights))
    if with_bias:
        assert found_bias is not None
        np.testing.assert_array_equal(found_bias[0], bias)
    else:
        assert found_bias is None


@settings(max_examples=100, deadline=None)
@given(st.binary(min_size=64, max_size=64), st.booleans(), st.integers(1, 40), st.integers(1, 40))
def test_random_bytes_are_refused_politely(data: bytes, bias: bool, channels: int, rows: int) -> None:
    coefficients = coefficients_at(1, (CoefficientStream(0, 0, 64),), lanes=4, bias=bias, packing=Packing.SPARSE)
    with pytest.raises(SimulationError):
        unpack_sparse(Geometry(1, 16 + channels, rows), coefficients, held(data), FORMAT, "task 0")


@pytest.mark.parametrize(("case", "channels", "kernel", "lanes"), [
    ("env_conv_k1_c64_n64_s16_st2_g1_bias0", 64, 1, 4), ("env_conv_k3_c64_n64_s16_st2_g1_bias0", 64, 3, 4),
    ("env_conv_k3_c128_n128_s16_st2_g1_bias1", 128, 3, 8)])
def test_apples_sections_of_strided_convolutions(corpus: Path, case: str, channels: int, kernel: int,
                                                 lanes: int) -> None:
    folder = corpus / "apple" / "oracles"
    record = json.loads((folder / f"{case}.json").read_text())
    spec = importlib.util.spec_from_file_location("materialise", folder / "materialise.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    count = channels * channels * kernel * kernel
    weights = np.frombuffer(module.effective(count, count), np.float16).reshape(channels, channels, kernel, kernel)
    bias = np.frombuffer(module.effective(channels, count), np.float16) if case.endswith("bias1") else None
    data, coefficients = sparse_section(weights, bias, lanes)
    assert hashlib.sha256(data).hexdigest() == record["constant"]["sha256"]
    rows = channels * kernel * kernel
    found, _, _ = unpack_sparse(Geometry(1, channels, rows), coefficients, held(data), FORMAT, "task 0",
                                (kernel, kernel))
    expected = by_rows(weights)
    np.testing.assert_array_equal(found[0], np.where(np.isnan(expected), np.inf, expected))
