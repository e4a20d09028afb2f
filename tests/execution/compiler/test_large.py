"""Tensors beyond field widths and beyond a tile in L2: cut into operations that cover every element once."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from openane.chips import get_chip
from openane.compiler import compile
from openane.compiler.buffers.storage import padded
from openane.compiler.loops.assign import OperandRole, excess, legal, row_cut, streamed_channels
from openane.compiler.loops.split import ranges, split_operands
from openane.engine import DType
from openane.errors import UnsupportedError
from openane.ops.build import GraphBuilder
from openane.ops.lowering import Tensor
from openane.simulator.trace import positions

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
LIMITS = get_chip("h13").limits
CUT = row_cut(LIMITS)
SMALL = replace(LIMITS, width=128, height=64, channels=64, groups=8, depth=16)


def dense(shape, order, dtype, slot):
    _, strides = padded(shape, LIMITS.memory_alignment, order, dtype.size)
    return Tensor(slot, 0, shape, strides, LIMITS.memory_alignment, dtype=dtype)


def places(operand):
    """Byte addresses of the elements in the order the engine visits them."""
    return positions(operand)[:, 0]


@settings(FEW, max_examples=150)
@given(shape=st.lists(st.sampled_from([1, 2, 3, 7, 64, 65, 130, 200]), min_size=1, max_size=5).map(tuple),
       data=st.data(), dtype=st.sampled_from(list(DType)))
def test_operations_cover_every_element_once(shape, data, dtype):
    assume(np.prod(shape) <= 60000)
    order = data.draw(st.permutations(range(len(shape))))
    source, target = dense(shape, None, dtype, 1), dense(shape, tuple(order), dtype, 2)
    roles = [OperandRole.NEURAL_SOURCE, OperandRole.RESULT]
    try:
        operations = split_operands([source, target], roles, SMALL, "copy")
    except UnsupportedError:  # more operations than one may be unrolled into
        assume(False)
    assert operations is not None
    moved = {}
    for operands in operations:
        assert not excess(operands[0].shape, (0, 1, 2, 3, 4), SMALL)
        assert all(legal(operand, role, SMALL) for operand, role in zip(operands, roles, strict=True))
        found = dict(zip(places(operands[1]), places(operands[0]), strict=True))
        assert not found.keys() & moved.keys()
        moved |= found
    index = np.indices(shape).reshape(len(shape), -1).T
    assert moved == dict(zip(index @ target.strides, index @ source.strides, strict=True))


@settings(FEW, max_examples=100)
@given(extent=st.integers(1, 10 ** 6), limit=st.integers(CUT, 10 ** 5))
def test_ranges_start_where_a_row_may_be_cut(extent, limit):
    pieces = list(ranges(extent, limit, CUT))
    assert [start for start, _ in pieces] == list(np.cumsum([0, *(count for _, count in pieces)])[:-1])
    assert sum(count for _, count in pieces) == extent
    assert all(start % CUT == 0 and count <= limit for start, count in pieces)


def test_channels_follow_from_the_size_of_l2():
    most = streamed_channels(LIMITS, LIMITS.width, 3)
    assert 3 * most * LIMITS.tile_width * 2 <= LIMITS.l2_size // 2 < 3 * (most + CUT) * LIMITS.tile_width * 2
    assert streamed_channels(replace(LIMITS, l2_size=2 * LIMITS.l2_size), LIMITS.width, 3) >= 2 * most
    assert streamed_channels(LIMITS, 1, 1) == LIMITS.channels


LARGE = {
    "add": ({}, 4e-3), "relu": ({}, 0), "tanh": ({}, 2e-3), "reduce_max": ({"axes": "axis", "keep_dims": True}, 0),
    "reduce_mean": ({"axes": "axis", "keep_dims": True}, 2e-3), "softmax": ({"axis": "axis"}, 3e-3),
    "layer_norm": ({"axes": "axis", "epsilon": 1e-2}, 4e-2), "transpose": ({"perm": "reversed"}, 0),
    "reshape": ({"shape": "flat"}, 0),
}


@pytest.mark.parametrize("op", LARGE)
@settings(FEW, max_examples=12)
@given(extent=st.sampled_from([16385, 20000, 33000, 40960, 70000]), others=st.lists(st.integers(1, 3), max_size=3),
       data=st.data())
def test_dimensions_beyond_field_widths(compare, op, extent, others, data):
    shape = tuple(data.draw(st.permutations([extent, *others])))
    assume(np.prod(shape) <= 200000)
    axis = data.draw(st.integers(0, len(shape) - 1))
    values = {"axis": axis if op == "softmax" else [axis], "reversed": list(range(len(shape)))[::-1], "flat": [-1]}
    settings_, error = LARGE[op]
    builder = GraphBuilder()
    operands = {name: values[value] if isinstance(value, str) else value for name, value in settings_.items()}
    operands["x"] = builder.input("x", "fp16", shape)
    if op == "add":
        other = tuple(e if data.draw(st.booleans()) else 1 for e in shape)
        operands["y"] = builder.input("y", "fp16", other)
    graph = builder.finish({"result": builder.single(op, **operands)})
    model = compare(graph, absolute=error, relative=1e-2 if error else 0)
    assert not model.host_operations
    assert len(model.program.tasks) <= 150


@pytest.mark.parametrize(("rows", "reduction", "columns"), [(2, 40000, 3), (1, 70000, 2), (20000, 5, 3), (2, 4, 33000)])
@pytest.mark.parametrize("constant", [True, False])
def test_large_products(compare, rows, reduction, columns, constant):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (rows, reduction))
    values = np.random.default_rng(3).uniform(-2, 2, (reduction, columns)) / np.sqrt(reduction)
    y = values.astype(np.float16) if constant else builder.single(
        "mul", x=builder.input("y", "fp16", (reduction, columns)), y=np.float16(1 / np.sqrt(reduction)))
    model = compare(builder.finish({"z": builder.single("matmul", x=x, y=y)}), absolute=2e-2, relative=5e-3)
    assert len(model.program.tasks) <= 40


def test_channels_that_do_not_fit_a_tile(compare):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16384, 2, 2))
    y = builder.single("add", x=x, y=builder.input("y", "fp16", (1, 16384, 1, 1)))
    model = compare(builder.finish({"z": builder.single("tanh", x=y)}), absolute=4e-3)
    assert len(model.program.tasks) <= 12


def test_beyond_l2_stays_in_few_operations():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 1, 2000, 5000))
    model = compile(builder.finish({"z": builder.single("add", x=x, y=builder.single("tanh", x=x))}))
    assert len(model.program.tasks) == 2
