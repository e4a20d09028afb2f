"""Matrix products: constant weights, two computed operands, batches, and products that follow each other."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from openane.chips import get_chip
from openane.compiler import compile
from openane.engine import Access, Convolution, MatrixProduct, PassThrough, Space
from openane.engine.access import WIDTH
from openane.errors import VerifyError
from openane.ops.build import GraphBuilder
from openane.program.patch import edit_task
from openane.program.verify import verify
from openane.program.verify.regions import access_regions
from openane.simulator.memory import view
from openane.simulator.trace import positions

CHIP = get_chip("h13")
LANES = CHIP.limits.lanes
FEW = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
EXTENT = st.integers(1, 70)


def weights(seed, *shape):
    return np.random.default_rng(seed).uniform(-0.5, 0.5, shape).astype(np.float16)


def operations(graph):
    return [CHIP.operation(task.words) for task in compile(graph).program.tasks]


def sides(batch, rows, reduction, columns, tx, ty):
    """Shapes of the operands of a product as they are stored."""
    x = (*batch[0], *((reduction, rows) if tx else (rows, reduction)))
    return x, (*batch[1], *((columns, reduction) if ty else (reduction, columns)))


@FEW
@given(EXTENT, EXTENT, EXTENT, st.booleans(), st.booleans(), st.integers(0, 2), st.sampled_from(["", "relu", "gelu"]))
def test_constant_weights(compare, rows, reduction, columns, tx, ty, ones, behind):
    x, y = sides(((1,) * ones, ()), rows, reduction, columns, tx, ty)
    builder = GraphBuilder()
    found = builder.single("matmul", x=builder.input("x", "fp16", x), y=weights(columns, *y), transpose_x=tx,
                           transpose_y=ty)
    found = builder.single(behind, x=found, **({"mode": "EXACT"} if behind == "gelu" else {})) if behind else found
    compare(builder.finish({"result": found}), low=-1, high=1, absolute=2e-2, relative=1e-2)


@FEW
@given(st.integers(1, 9).map(lambda n: 8 * n), st.integers(1, 40), st.integers(1, 6), st.booleans(), st.booleans())
def test_products_that_follow_each_other(compare, rows, reduction, wide, activation, bias):
    builder = GraphBuilder()
    value = builder.input("x", "fp16", (1, rows, reduction))
    extents = (reduction, reduction * wide, 24, reduction)
    for number, (before, after) in enumerate(pairwise(extents)):
        extra = {"bias": weights(number, after)} if bias else {}
        value = builder.single("linear", x=value, weight=weights(number, after, before), **extra)
        value = builder.single("relu", x=value) if activation and number < 2 else value
    compare(builder.finish({"result": value}), low=-0.5, high=0.5, absolute=5e-2, relative=1e-2)


@pytest.mark.parametrize("readers", [1, 2])
def test_what_else_reads_split_rows(compare, readers):
    """A result laid out in 8-wide rows of pixels serves other readers too."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (64, 24))
    wide = builder.single("linear", x=x, weight=weights(1, 96, 24))
    narrow = builder.single("linear", x=wide, weight=weights(2, 24, 96))
    outputs = {"sum": builder.single("add", x=narrow, y=x)}
    if readers == 2:
        outputs["wide"] = builder.single("relu", x=wide)
    compare(builder.finish(outputs), absolute=2e-2, relative=1e-2)


@FEW
@given(st.data())
def test_two_computed_operands(compare, data):
    rank = data.draw(st.integers(0, 3))
    full = data.draw(st.lists(st.integers(1, 3), min_size=rank, max_size=rank))
    batch = [tuple(data.draw(st.sampled_from([extent, 1])) for extent in full) for _ in range(2)]
    batch = [b[data.draw(st.integers(0, rank)):] if rank else b for b in batch]
    rows, reduction, columns = data.draw(EXTENT), data.draw(EXTENT), data.draw(EXTENT)
    tx, ty = data.draw(st.booleans()), data.draw(st.booleans())
    scaled = data.draw(st.booleans())
    x, y = sides(batch, rows, reduction, columns, tx, ty)
    builder = GraphBuilder()
    found = builder.single("matmul", x=builder.input("x", "fp16", x), y=builder.input("y", "fp16", y), transpose_x=tx,
                           transpose_y=ty)
    found = builder.single("mul", x=found, y=np.float16(0.125)) if scaled else found
    compare(builder.finish({"result": found}), low=-1, high=1, absolute=2e-2, relative=1e-2)


@pytest.mark.parametrize("arithmetic", ["exact", "fast"])
@pytest.mark.parametrize("rows", [16, 48, 64, 96, 119])
def test_parts_of_rows(execute, rows, arithmetic):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (2, rows, 20)), builder.input("y", "fp16", (2, 20, 36))
    model = compile(builder.finish({"result": builder.single("matmul", x=x, y=y)}))
    inputs = {"x": weights(0, 2, rows, 20), "y": weights(1, 2, 20, 36)}
    found = execute(model, inputs, arithmetic)["result"]
    wanted = inputs["x"].astype(np.float64) @ inputs["y"].astype(np.float64)
    assert np.abs(found - wanted).max() < 4e-3


@pytest.mark.parametrize(("rows", "lanes"), [(1, 1), (16, 1), (32, 2), (48, 2), (64, 4), (96, 2), (128, 8), (192, 4),
                                             (256, 8), (375, 1)])
def test_lanes_are_apples(rows, lanes):
    assert LANES.runtime_product(rows) == lanes


@given(st.integers(1, 4000))
def test_parts_cover_the_rows(rows):
    lanes = LANES.runtime_product(rows)
    parts = list(LANES.row_parts(rows, lanes))
    covered = [start + i for start, count in reversed(parts) for i in range(count)]
    assert covered == list(range(rows))
    assert all(count // lanes in (1, 2, 4, 8, 16) for _, count in parts)


def test_last_rows_come_first():
    assert list(LANES.row_parts(375, 1))[:4] == [(374, 1), (372, 2), (368, 4), (352, 16)]


@pytest.mark.parametrize(("shape", "height"), [((8, 1024, 1024), 1), ((16, 2048, 2048), 2), ((32, 2048, 2048), 4),
                                               ((32, 256, 128), 1), ((64, 256, 512), 1), ((64, 256, 1024), 8),
                                               ((64, 1024, 1024), 1), ((128, 2048, 8192), 1), ((20, 4096, 4096), 1)])
def test_rows_split_as_apple_does(shape, height):
    assert LANES.split_height(*shape) == height


def test_a_chain_of_products_has_no_copies_between():
    builder = GraphBuilder()
    value = builder.input("x", "fp16", (64, 256))
    for number in range(3):
        value = builder.single("linear", x=value, weight=weights(number, 256, 256))
    found = operations(builder.finish({"result": value}))
    assert [type(operation) for operation in found] == [PassThrough, Convolution, Convolution, Convolution]
    assert all(operation.result.space is Space.L2 for operation in found[:-1])


def attention(rows, width):
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, rows, width))
    q, k, v = (builder.single("linear", x=x, weight=weights(n, width, width)) for n in range(3))
    scores = builder.single("mul", x=builder.single("matmul", x=q, y=k, transpose_y=True), y=np.float16(0.125))
    context = builder.single("matmul", x=builder.single("softmax", x=scores, axis=-1), y=v)
    projected = builder.single("linear", x=context, weight=weights(3, width, width))
    return builder.finish({"result": builder.single("add", x=x, y=projected)})


@pytest.mark.parametrize(("rows", "width", "products"), [(64, 128, 1), (64, 256, 2), (128, 512, 4)])
def test_attention_needs_no_copies_for_coefficients(rows, width, products):
    """Queries and values are written packed, softmax's last product too; the context comes out as pixels."""
    found = operations(attention(rows, width))
    assert sum(isinstance(operation, MatrixProduct) for operation in found) == 1 + products
    packed = [operation for operation in found if operation.result.interleave > 1]
    assert len(packed) == 2
    assert all(isinstance(operation, Convolution) for operation in packed)


@pytest.mark.parametrize(("rows", "width"), [(64, 64), (48, 80), (17, 24), (96, 200)])
def test_attention(compare, rows, width):
    compare(attention(rows, width), low=-0.5, high=0.5, absolute=2e-2, relative=2e-2)


@pytest.mark.parametrize(("batch", "rows", "reduction"), [(20, 64, 1), (60, 32, 1), (30, 128, 3), (2, 16, 5)])
def test_a_matrix_that_meets_a_whole_batch(compare, batch, rows, reduction):
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (1, rows, reduction)), builder.input("y", "fp16", (batch, reduction, 16))
    graph = builder.finish({"z": builder.single("matmul", x=x, y=y)})
    program = compile(graph).program
    verify(program)
    place, product = next((number, found) for number, found in enumerate(operations(graph))
                          if isinstance(found, MatrixProduct))
    assert product.result.shape[0] == batch
    with pytest.raises(VerifyError, match="stream_sizes"):  # each with a matrix of its own: there is one
        edit_task(program, place, {"NE.KernelCfg.GroupKernelReuse": 0})
    compare(graph, low=-1.0, high=1.0, absolute=3e-2, relative=1e-2)


def test_one_copy_interleaves_all_matrices_of_a_batch():
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (4, 64, 64)), builder.input("y", "fp16", (4, 64, 64))
    found = operations(builder.finish({"result": builder.single("matmul", x=x, y=y)}))
    assert [operation.result.interleave for operation in found] == [4, 1, 1, 1, 1]
    assert all(isinstance(operation, MatrixProduct) for operation in found[1:])


def test_turned_operands_beyond_l2_lie_in_blocks_of_channels(compare):
    """Both a computed right operand and the rows of a constant product."""
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (20, 1000)), builder.input("y", "fp16", (1001, 1000))
    graph = builder.finish({"result": builder.single("matmul", x=x, y=y, transpose_y=True)})
    assert [o.result.packed for o in operations(graph) if o.result.interleave == 8] == [WIDTH]
    compare(graph, low=-0.5, high=0.5, absolute=2e-2, relative=1e-2)
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (300, 4090))
    graph = builder.finish({"result": builder.single("linear", x=x, weight=weights(3, 33, 4090))})
    assert operations(graph)[0].result.packed == WIDTH
    compare(graph, low=-0.25, high=0.25, absolute=5e-2, relative=1e-2)


def test_columns_are_packed_as_rows_of_coefficients_in_one_copy():
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (32, 64)), builder.input("y", "fp16", (32, 40))
    found = operations(builder.finish({"result": builder.single("matmul", x=x, y=y, transpose_x=True)}))
    assert [type(operation) for operation in found] == [PassThrough, MatrixProduct]
    assert (found[0].result.interleave, found[0].result.packed) == (4, WIDTH)


@given(st.integers(1, 40), st.integers(1, 40), st.sampled_from([2, 4, 8]))
def test_columns_in_blocks_go_through_the_registers(rows, columns, lanes):
    """Encoded, decoded, and written to the bytes the access says."""
    size = -(-rows * lanes * 2 // 64) * 64
    result = Access(slot=5, shape=(1, rows, 1, 1, columns), strides=(0, lanes * 2, 0, 0, size), interleave=lanes,
                    packed=WIDTH)
    row = -(-columns * 2 // 64) * 64
    source = Access(slot=4, shape=result.shape, strides=(0, row, 0, 0, 2))
    (task,) = CHIP.emit([PassThrough(source=source, result=result)])
    assert CHIP.operation(task.words).result == result
    store = np.zeros(-(-columns // lanes) * size, np.uint8)
    operand = view(result, store)
    values = np.arange(1, rows * columns + 1, dtype=np.uint16).reshape(result.shape)
    operand.array[...] = values
    operand.store()
    where = positions(result)[:, 0]
    assert (store.view(np.uint16)[where // 2] == values.ravel()).all()
    assert result.span == (where.min(), where.max() + 2) or columns < lanes or columns % lanes
    regions, apart = access_regions(result)
    assert apart
    assert sum(region.size for region in regions) == 2 * rows * columns


def test_weights_beyond_what_a_core_keeps():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (256, 1024))
    found = operations(builder.finish({"result": builder.single("linear", x=x, weight=weights(0, 1024, 1024))}))
    assert len(found) == 1 + 1024 * 1024 // 2 ** 19


@pytest.mark.parametrize(("shape", "reps"), [((1, 1, 5), (1, 7, 1)), ((1, 3, 1, 20), (2, 1, 6, 1)), ((1, 1), (4, 9)),
                                             ((3, 4), (2, 3)), ((2, 1, 3, 1, 4), (1, 2, 2, 3, 1)), ((6,), (5,))])
@pytest.mark.parametrize("behind", ["", "relu", "tanh"])
def test_tiles(compare, shape, reps, behind):
    builder = GraphBuilder()
    found = builder.single("tile", x=builder.input("x", "fp16", shape), reps=reps)
    found = builder.single(behind, x=found) if behind else found
    compare(builder.finish({"result": found}), absolute=5e-3)


def test_a_tiled_row_is_read_once():
    builder = GraphBuilder()
    found = operations(builder.finish({"result": builder.single("tile", x=builder.input("x", "fp16", (1, 8, 1, 375)),
                                                                reps=(1, 1, 375, 1))}))
    assert len(found) == 1
    assert found[0].first.copy is not None
