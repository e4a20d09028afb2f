"""Products of two computed tensors with a group for every matrix of a batch, as they are from level 1 on."""

from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.mutants import with_task

from openane.chips import described_generations, get_chip
from openane.compiler import compile
from openane.engine import MatrixProduct, PassThrough
from openane.ops.build import GraphBuilder
from openane.ops.optimisation import with_level
from openane.program.verify import verify, violations

FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EXTENT = st.one_of(st.integers(1, 40), st.integers(100, 260))
COMPILED = [name for name in described_generations() if name != "h12"]


def product(batch, rows, reduction, columns, tx=False, ty=False):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (*batch, *((reduction, rows) if tx else (rows, reduction))))
    y = builder.input("y", "fp16", (*batch, *((columns, reduction) if ty else (reduction, columns))))
    graph = builder.finish({"z": builder.single("matmul", x=x, y=y, transpose_x=tx, transpose_y=ty)})
    return with_level(graph, 1)


def attention(heads, rows, width, level=1):
    builder = GraphBuilder()
    q, k, v = (builder.input(name, "fp16", (1, heads, rows, width)) for name in "qkv")
    scores = builder.single("matmul", x=q, y=k, transpose_y=True)
    mixed = builder.single("matmul", x=builder.single("softmax", x=scores, axis=-1), y=v)
    return with_level(builder.finish({"z": mixed}), level)


def tasks(graph):
    return len(compile(graph).program.tasks)


@FEW
@given(st.sampled_from([(), (2,), (1, 3), (2, 3), (13,)]), EXTENT, st.integers(1, 40), EXTENT, st.booleans(),
       st.booleans())
def test_any_extents(compare, batch, rows, reduction, columns, tx, ty):
    graph = product(batch, rows, reduction, columns, tx, ty)
    compare(graph, low=-1, high=1, absolute=2e-2, relative=1e-2)
    verify(compile(graph).program)


@pytest.mark.parametrize(("rows", "reduction"), [(37, 17), (49, 4), (49, 32), (3, 5)])
def test_what_fills_up_planes_and_blocks_need_not_be_written(rows, reduction):
    program, chip = compile(product((6,), rows, reduction, 20)).program, get_chip("h13")
    verify(program)
    packing = next(index for index, task in enumerate(program.tasks)
                   if isinstance(chip.operation(task.words), PassThrough))
    fields = chip.decode(program.tasks[packing].words)
    fewer = fields.values | {"Common.InDim.W": reduction - 1, "Common.OutDim.W": reduction - 1}
    unwritten = with_task(program, packing, chip.encode(replace(fields, values=fewer)))
    assert "written_before" in {violation.rule for violation in violations(unwritten)}


@pytest.mark.parametrize("generation", COMPILED)
def test_every_generation(compare, generation):
    graph = product((3,), 37, 24, 20)
    compare(graph, low=-1, high=1, absolute=2e-2, relative=1e-2, target=generation)
    chip = get_chip(generation)
    found = [chip.operation(task.words) for task in compile(graph, target=generation).program.tasks]
    assert [operation.grouped for operation in found if isinstance(operation, MatrixProduct)] == [True]


def test_odd_rows_take_two_tasks():
    """197 rows, as of a picture's 196 patches and its class."""
    found = [get_chip("h13").operation(task.words)
             for task in compile(product((12,), 197, 64, 197, ty=True)).program.tasks]
    products = [operation for operation in found if isinstance(operation, MatrixProduct)]
    assert [operation.result.shape[1] for operation in products] == [69, 128]
    assert all(operation.result.shape[0] == 12 for operation in products)


@pytest.mark.parametrize(("rows", "width"), [(64, 64), (17, 24), (96, 200)])
def test_attention(compare, rows, width):
    compare(attention(3, rows, width), low=-0.5, high=0.5, absolute=2e-2, relative=2e-2)


def test_heads_share_tasks():
    assert tasks(attention(9, 197, 64)) < tasks(attention(9, 197, 64, level=0)) / 10
    assert tasks(attention(12, 197, 64, level=0)) < 20  # more than 128 would be made one by one
