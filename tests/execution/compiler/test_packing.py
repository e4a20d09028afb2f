"""Coefficient streams: Apple's recorded hashes, and every weight found back where the placement says."""

import hashlib
import importlib.util
import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.h13 import FORMAT, LIMITS, by_rows, coefficients_at, held
from support.placement import dense_channels, grouped_channels

from openane.compiler import compile
from openane.compiler.weights.pack import pack_dense, pack_sparse, pack_table
from openane.engine import Packing
from openane.importers import load_graph
from openane.simulator.coefficients import Geometry, unpack_sparse

HASHED = (
    "binary_add_c64_constant_blob", "conv_k1_c256_n512_s1_bias0", "conv_k1_c64_n64_s8_bias0_relu",
    "conv_probe_k3_c64_n128_s16_st1_g1_bias0_valid", "env_bcast_mul_1x64x8x8_blob_1x64x1x1",
    "env_conv_k1_c64_n64_s16_st1_g1_bias0", "env_conv_k1_c64_n64_s16_st2_g1_bias0",
    "env_conv_k1_c768_n768_s1_st1_g1_bias1", "env_conv_k3_c64_n64_s16_st1_g4_bias0",
    "env_conv_k3_c128_n128_s16_st2_g1_bias1", "env_conv_k3_c64_n64_s16_st2_g1_bias0",
    "matmul_m1_k1024_n1024_ty1", "matmul_m1_k256_n512_ty1", "unary_exp_c512", "unary_sigmoid_c64",
    "unary_sqrt_c64", "unary_tanh_c64",
)


@pytest.mark.parametrize("case", HASHED)
def test_constant_section_is_apples(corpus, tmp_path, case):
    folder = corpus / "apple" / "oracles"
    spec = importlib.util.spec_from_file_location("materialise", folder / "materialise.py")
    materialise = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(materialise)
    materialise.main(str(folder / f"{case}.json"), str(tmp_path))
    model = compile(load_graph(tmp_path / "model.mil"))
    recorded = json.loads((folder / f"{case}.json").read_text())["constant"]
    assert len(model.program.constants) == recorded["size"]
    assert hashlib.sha256(model.program.constants).hexdigest() == recorded["sha256"]


@given(channels=st.integers(1, 300), rows=st.integers(1, 40), lanes=st.sampled_from([1, 2, 4, 8, 16, 32]),
       bias=st.booleans(), table=st.booleans())
def test_every_weight_is_where_the_placement_says(channels, rows, lanes, bias, table):
    rng = np.random.default_rng(channels * 41 + rows)
    weights = rng.standard_normal((1, channels, rows)).astype(np.float16)
    biases = rng.standard_normal((1, channels)).astype(np.float16) if bias else None
    packed = pack_dense(FORMAT, weights, biases, lanes, bytes(range(128)) if table else None)
    streams = {core: np.frombuffer(packed.data, "<f2", size // 2, offset) for core, offset, size in packed.streams}
    for index, channel in enumerate(dense_channels(channels, rows, lanes, bias=bias, table=table)):
        stream = streams[channel.core]
        found = stream[channel.weights:channel.weights + (rows - 1) * channel.step + 1:channel.step]
        assert (found == weights[0, index]).all()
        assert biases is None or stream[channel.bias] == biases[0, index]
    if table:
        assert all(stream[:64].tobytes() == bytes(range(128)) for stream in streams.values())
    assert all(offset % 64 == 0 and size % 64 == 0 for _, offset, size in packed.streams)


@given(groups=st.integers(2, 9), channels=st.integers(1, 40), rows=st.integers(1, 20))
def test_groups_are_packed_one_after_the_other(groups, channels, rows):
    weights = np.arange(groups * channels * rows).reshape(groups, channels, rows).astype(np.float16)
    lanes = LIMITS.lanes.convolution(channels, 16, 16)
    packed = pack_dense(FORMAT, weights, None, lanes)
    streams = {core: np.frombuffer(packed.data, "<f2", size // 2, offset) for core, offset, size in packed.streams}
    placed = grouped_channels(groups, channels, rows, lanes)
    for channel, expected in zip(placed, weights.reshape(-1, rows), strict=True):
        last = channel.weights + (rows - 1) * channel.step + 1
        assert (streams[channel.core][channel.weights:last:channel.step] == expected).all()


@settings(deadline=None)
@given(channels=st.integers(1, 70), inputs=st.integers(1, 20), kernel=st.tuples(st.integers(1, 4), st.integers(1, 4)),
       lanes=st.sampled_from([1, 2, 4, 8, 16, 32]), zeros=st.sampled_from([0, 0.01, 0.5]), bias=st.booleans())
def test_zeros_are_skipped_and_found_again(channels, inputs, kernel, lanes, zeros, bias):
    rng = np.random.default_rng(channels * 29 + inputs)
    weights = rng.standard_normal((1, channels, inputs, *kernel)).astype(np.float16)
    weights[rng.random(weights.shape) < zeros] = 0
    biases = rng.standard_normal((1, channels)).astype(np.float16) if bias else None
    packed = pack_sparse(FORMAT, weights, biases, lanes)
    coefficients = coefficients_at(1, packed.streams, lanes=lanes, bias=bias, packing=Packing.SPARSE)
    rows = inputs * kernel[0] * kernel[1]
    found, _, _ = unpack_sparse(Geometry(1, channels, rows), coefficients, held(packed.data), FORMAT, "task 0", kernel)
    np.testing.assert_array_equal(found[0], by_rows(weights[0]))


def test_lanes_follow_the_rule():
    lanes = [LIMITS.lanes.convolution(c, 16, 16) for c in (1, 15, 16, 31, 32, 64, 255, 256, 4096)]
    assert lanes == [1, 1, 1, 1, 2, 4, 8, 16, 16]
    assert LIMITS.lanes.convolution(512, 8, 8) == 32
    assert LIMITS.lanes.convolution(512, 8, 9) == 16
    assert LIMITS.lanes.product(1, 1024, 1024) == 16
    assert LIMITS.lanes.product(256, 4096, 1024) == 8


def test_cores_share_one_table():
    packed = pack_table(bytes(128), 5)
    assert tuple(packed.streams) == tuple((core, 0, 128) for core in range(5))
