"""Operations that only move elements: bit by bit, whatever the shape, and without a task where strides suffice."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import openane as ane
from openane.compiler import compile
from openane.compiler.lower import builder as lowering
from openane.compiler.recipes import data_movement
from openane.errors import GraphError, UnsupportedError
from openane.graph import numpy_type
from openane.ops.build import GraphBuilder
from openane.ops.evaluate import evaluate
from openane.ops.indexing import pieces
from openane.passes.order import simplify

FEW = settings(max_examples=15, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
SHAPES = st.lists(st.integers(1, 9), min_size=1, max_size=5).map(tuple)
SPECIAL = np.array([np.inf, -np.inf, -0.0, 0.0, 65504, -6e-8], np.float16)


def values(shape, seed=0):
    rng = np.random.default_rng(seed)
    array = rng.uniform(-2, 2, shape).astype(np.float16)
    return np.where(rng.random(shape) < 0.3, rng.choice(SPECIAL, shape), array)


@pytest.fixture
def moves(execute):
    """moves(op, shape, **operands): compiles, runs in both arithmetics, demands the same bits. Returns the model."""
    def run(op, extents, /, key="x", **operands):
        builder = GraphBuilder()
        x = builder.input("input", "fp16", extents)
        made = builder.add(op, **{key: x}, **operands)
        made = made if isinstance(made, tuple) else (made,)
        graph = builder.finish({f"y{i}": value for i, value in enumerate(made)})
        model = compile(graph)
        inputs = {"input": values(extents)}
        wanted = evaluate(graph, inputs)
        for mode in ("fast", "exact"):
            found = execute(model, inputs, mode)
            for name, array in wanted.items():
                np.testing.assert_array_equal(found[name], array)
                np.testing.assert_array_equal(np.signbit(found[name]), np.signbit(array))
        return model

    return run


def vector(draw, extent, size=6):
    return draw(st.lists(st.integers(0, extent - 1), min_size=1, max_size=size))


@FEW
@given(indices=st.lists(st.integers(0, 9), min_size=1, max_size=60), repeats=st.integers(1, 4), tiles=st.integers(1, 4))
def test_pieces_cover_every_index_once(indices, repeats, tiles):
    wanted = np.tile(np.repeat(indices, repeats), tiles)
    found = np.full(len(wanted), -1)
    for piece in pieces(wanted):
        for index in np.ndindex(*(loop.count for loop in piece.loops)):
            place = piece.place + sum(i * loop.place for i, loop in zip(index, piece.loops, strict=True))
            assert found[place] == -1
            found[place] = piece.source + sum(i * loop.source for i, loop in zip(index, piece.loops, strict=True))
    np.testing.assert_array_equal(found, wanted)


@FEW
@given(shape=SHAPES, data=st.data())
def test_slices(moves, shape, data):
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, e - 1)] * 2))) for e in shape]
    step = [data.draw(st.sampled_from([1, 2, 3, -1, -2])) for _ in shape]
    begin = [low if s > 0 else high for (low, high), s in zip(bounds, step, strict=True)]
    end = [high + 1 if s > 0 else low - 1 for (low, high), s in zip(bounds, step, strict=True)]
    drop = data.draw(st.tuples(*[st.booleans()] * len(shape)))
    mask = [e < 0 for e in end]
    moves("slice_by_index", shape, begin=begin, end=end, stride=step, end_mask=mask, squeeze_mask=list(drop))
    moves("slice_by_size", shape, begin=[low for low, _ in bounds], size=[high + 1 - low for low, high in bounds])


@FEW
@given(shape=SHAPES, data=st.data())
def test_splits_stacks_and_reversals(moves, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    cuts = sorted(data.draw(st.sets(st.integers(1, max(1, shape[axis] - 1)), max_size=3)) - {shape[axis]})
    moves("split", shape, split_sizes=np.diff([0, *cuts, shape[axis]]).astype(np.int32), axis=axis)
    moves("reverse", shape, axes=[axis])
    if len(shape) < 5:
        builder = GraphBuilder()
        x = builder.input("x", "fp16", shape)
        y = builder.input("y", "fp16", shape)
        at = data.draw(st.integers(-len(shape) - 1, len(shape)))
        graph = builder.finish({"z": builder.single("stack", values=(x, y, x), axis=at)})
        assert compile(graph).host_operations == ()


@FEW
@given(shape=SHAPES, data=st.data())
def test_gathers(moves, shape, data):
    rank = len(shape)
    axis = data.draw(st.integers(0, rank - 1))
    moves("gather", shape, indices=np.int32(vector(data.draw, shape[axis])), axis=axis)
    if rank < 5:
        deep = np.int32([vector(data.draw, shape[axis], 1) for _ in range(3)])
        moves("gather", shape, indices=deep, axis=axis - rank)
    small = tuple(min(e, 3) for e in shape)
    rng = np.random.default_rng(rank)
    along = (*small[:axis], 2, *small[axis + 1:])
    at = rng.integers(-small[axis], small[axis], along).astype(np.int32)
    moves("gather_along_axis", small, indices=at, axis=axis)
    depth = data.draw(st.integers(1, rank))
    at = np.stack([rng.integers(0, e, 4) for e in small[:depth]], -1).astype(np.int32)
    moves("gather_nd", small, indices=at)
    if rank > 1:
        batched = rng.integers(0, small[1], (small[0], 2, 1)).astype(np.int32)
        moves("gather_nd", small, indices=batched, batch_dims=1)
        moves("reverse_sequence", small, lengths=rng.integers(0, small[1] + 1, small[0]).astype(np.int32), seq_axis=1)


@FEW
@given(shape=SHAPES, data=st.data(), mode=st.sampled_from(["constant", "reflect", "replicate"]))
def test_padding(moves, shape, data, mode):
    largest = [{"constant": 40, "reflect": e - 1, "replicate": e}[mode] for e in shape]
    pad = [data.draw(st.integers(0, most)) if data.draw(st.booleans()) else 0 for most in largest for _ in range(2)]
    while np.prod([e + pad[2 * i] + pad[2 * i + 1] for i, e in enumerate(shape)]) > 1 << 14:
        pad[int(np.argmax(pad))] = 0
    moves("pad", shape, pad=pad, mode=mode, constant_val=np.float16(1.5))


@FEW
@given(batch=st.integers(1, 2), channels=st.integers(1, 4), height=st.integers(1, 5), width=st.integers(1, 12),
       block=st.integers(1, 3))
def test_blocks_and_channels(moves, batch, channels, height, width, block):
    deep = batch, channels * block * block, height, width
    moves("depth_to_space", deep, block_size=block)
    moves("pixel_shuffle", deep, upscale_factor=block)
    wide = batch, channels, height * block, width * block
    moves("space_to_depth", wide, block_size=block)
    moves("pixel_unshuffle", wide, downscale_factor=np.uint32(block))
    moves("space_to_batch", wide, block_shape=[block, block], paddings=np.int32([[block, 0], [0, block]]))
    moves("batch_to_space", (batch * block * block, channels, height, width), block_shape=[block, block],
          crops=np.int32([[block - 1, 0], [0, block - 1]]))


@FEW
@given(shape=st.lists(st.integers(1, 9), min_size=1, max_size=4).map(tuple), data=st.data())
def test_windows_and_crops(moves, shape, data):
    axis = data.draw(st.integers(0, len(shape) - 1))
    moves("sliding_windows", shape, axis=axis, size=data.draw(st.integers(1, shape[axis])),
          stride=data.draw(st.integers(1, 3)))
    if len(shape) > 2:
        cut = [[data.draw(st.integers(0, (e - 1) // 2)) for _ in range(2)] for e in shape[-2:]]
        moves("crop", shape, crop_height=cut[0], crop_width=cut[1])


@FEW
@given(shape=st.lists(st.integers(1, 6), min_size=1, max_size=4).map(tuple), data=st.data(),
       mode=st.sampled_from(["update", "add", "sub", "mul", "div", "max", "min"]))
def test_scatters(hold, shape, data, mode):
    axis = data.draw(st.integers(0, len(shape) - 1))
    at = np.int32(vector(data.draw, shape[axis], 4))
    rng = np.random.default_rng(len(at))
    many = (*shape[:axis], len(at), *shape[axis + 1:])
    depth = data.draw(st.integers(1, len(shape)))
    deep = np.stack([rng.integers(0, e, 3) for e in shape[:depth]], -1).astype(np.int32)
    for op, indices, extents in (
            ("scatter", at, many), ("scatter_nd", deep, (3, *shape[depth:])),
            ("scatter_along_axis", rng.integers(0, shape[axis], many).astype(np.int32), many)):
        builder = GraphBuilder()
        x, updates = builder.input("x", "fp16", shape), builder.input("u", "fp16", extents)
        settings_ = {} if op == "scatter_nd" else {"axis": axis}
        y = builder.single(op, data=x, indices=indices, updates=updates, mode=mode, **settings_)
        error = 0 if mode in ("update", "max", "min") else 8e-3
        hold(builder.finish({"y": y}), low=0.5, high=1.5, absolute=error, relative=error)


@FEW
@given(shape=SHAPES, data=st.data())
def test_slice_updates(hold, shape, data):
    bounds = [sorted(data.draw(st.tuples(*[st.integers(0, e - 1)] * 2))) for e in shape]
    step = [data.draw(st.integers(1, 3)) for _ in shape]
    extents = [len(range(low, high + 1, s)) for (low, high), s in zip(bounds, step, strict=True)]
    builder = GraphBuilder()
    x, update = builder.input("x", "fp16", shape), builder.input("u", "fp16", extents)
    y = builder.single("slice_update", x=x, update=update, begin=[low for low, _ in bounds],
                       end=[high + 1 for _, high in bounds], stride=step)
    hold(builder.finish({"y": y}), absolute=0, relative=0)


def tasks_behind(op, shape, **operands):
    """Tasks of a model that squares what the operation makes, less that of the square."""
    builder = GraphBuilder()
    made = builder.add(op, x=builder.input("x", "fp16", shape), **operands)
    made = made if isinstance(made, tuple) else (made,)
    graph = builder.finish({f"y{i}": builder.single("square", x=value) for i, value in enumerate(made)})
    return len(compile(graph).program.tasks) - len(made)


@pytest.mark.parametrize(("op", "operands"), [
    ("slice_by_size", {"begin": [0, 1, 2, 0], "size": [1, 2, 3, -1]}),
    ("slice_by_size", {"begin": [0, 1, 2, 32], "size": [1, 2, 3, 20]}),
    ("slice_by_index", {"begin": [1, 0, 1, 0], "end": [2, 4, 8, 64], "stride": [1, 3, 2, 1]}),
    ("split", {"num_splits": 2, "axis": 1}), ("split", {"num_splits": 2, "axis": 3}),
    ("gather", {"indices": np.int32([0, 3]), "axis": 1}), ("gather", {"indices": np.int32(2), "axis": 2}),
    ("crop", {"crop_height": [1, 2], "crop_width": [32, 0]}), ("expand_dims", {"axes": [0]}),
])
def test_views_cost_nothing(op, operands):
    assert tasks_behind(op, (2, 4, 8, 64), **operands) == 0


def test_long_reversals_and_repeats_take_few_copies(moves):
    assert len(moves("reverse", (2, 100, 40), axes=[1]).program.tasks) < 30
    assert len(moves("pad", (1, 1600), pad=[128, 128], mode="reflect").program.tasks) < 60
    assert len(moves("pad", (1, 2, 1500), pad=[1100, 1100], mode="reflect").program.tasks) < 200
    ends = [*range(99, 9, -1), *range(30), *range(50, 2, -2)]
    assert len(moves("gather", (4, 100), indices=np.int32(ends), axis=1).program.tasks) < 40
    assert len(moves("gather", (2, 5, 40), indices=np.int32([0] * 200 + [1, 2]), axis=1).program.tasks) < 13


def test_slice_of_concat_and_chains_of_movement_are_merged():
    builder = GraphBuilder()
    x, y = builder.input("x", "fp16", (2, 3, 40)), builder.input("y", "fp16", (2, 5, 40))
    joined = builder.single("concat", values=(x, y), axis=1)
    part = builder.single("slice_by_index", x=joined, begin=[0, 3, 0], end=[2, 8, 40])
    for perm in ([0, 2, 1], [0, 2, 1]):
        part = builder.single("transpose", x=part, perm=perm)
    for shape in ([1, 2, 1, 5, 1, 40], [10, 40]):
        part = builder.single("reshape", x=part, shape=shape)
    graph = builder.finish({"z": builder.single("relu", x=part)})
    assert not {node.op for node in simplify(graph).nodes} & {"concat", "transpose", "slice_by_index"}
    assert len(compile(graph).program.tasks) == 1


@pytest.mark.parametrize("dtype", ["bool", "int8", "uint8", "int32"])
@pytest.mark.parametrize(("op", "operands"), [
    ("slice_by_size", {"begin": [0, 1, 3], "size": [2, 2, 20]}), ("reverse", {"axes": [2]}),
    ("pixel_shuffle", {"upscale_factor": 2}), ("gather", {"indices": np.int32([2, 2, 0]), "axis": 1}),
    ("pad", {"pad": [1, 2], "mode": "replicate"}), ("pad", {"pad": [1, 2]}),
])
def test_integers_and_booleans_are_moved(op, operands, dtype):
    if (op, dtype) == ("pad", "bool"):
        return  # MIL pads numbers only
    builder = GraphBuilder()
    shape = (1, 8, 3, 40) if op == "pixel_shuffle" else (2, 3, 40)
    x = builder.input("x", dtype, shape)
    graph = builder.finish({"y": builder.single(op, x=x, **operands)})
    array = np.random.default_rng(0).integers(0, 2 if dtype == "bool" else 100, shape).astype(numpy_type(dtype))
    found = ane.run(compile(graph), {"x": array}, "simulator")["y"]
    np.testing.assert_array_equal(found, evaluate(graph, {"x": array})["y"])


def test_runtime_indices_are_refused():
    builder = GraphBuilder()
    x, at = builder.input("x", "fp16", (9, 4)), builder.input("at", "int32", (3,))
    graph = builder.finish({"y": builder.single("gather", x=x, indices=at)})
    with pytest.raises(UnsupportedError, match="Indices must be constants"):
        compile(graph, allow_host=False)


def test_indices_without_pattern_are_refused():
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (5000, 4))
    at = np.random.default_rng(0).permutation(5000).astype(np.int32)
    graph = builder.finish({"y": builder.single("gather", x=x, indices=at)})
    with pytest.raises(UnsupportedError, match="must run in ranges or repeat"):
        compile(graph)


@pytest.mark.parametrize(("op", "operands", "said"), [
    ("slice_by_index", {"begin": [3], "end": [3]}, "must leave at least one"),
    ("slice_by_index", {"begin": [3], "end": [4], "stride": [0]}, "steps other than 0"),
    ("slice_by_size", {"begin": [7], "size": [2]}, "must keep some of elements"),
    ("split", {"num_splits": 3, "axis": 0}, "must divide"), ("split", {"axis": 0}, "must be given"),
    ("gather", {"indices": np.int32([8])}, "must hold positions from -8 to 7"),
    ("sliding_windows", {"axis": 0, "size": 9}, "at most the 8 elements"),
])
def test_what_does_not_fit_is_named(op, operands, said):
    builder = GraphBuilder()
    with pytest.raises(GraphError, match=said):
        builder.single(op, x=builder.input("x", "fp16", (8,)), **operands)


CUT = [((1, 53, 3, 19), (53, 57)), ((7, 3, 2, 5, 9), (21, 2, 45)), ((6, 5, 4, 3, 7), (30, 4, 21)),
       ((4, 9, 10, 3), (6, 6, 10, 3)), ((11, 5, 3, 7), (165, 7)), ((13, 77, 3), (13, 11, 21))]
"""Reshapes that no view expresses where rows begin aligned, and whose leading dimensions are cut."""


def reshaped(shape, wanted):
    """The graph of a sum in another shape, read so that its rows begin aligned."""
    build = GraphBuilder()
    turned = (*range(len(shape) - 2), len(shape) - 1, len(shape) - 2)
    x = build.add("transpose", x=build.input("input", "fp16", [shape[i] for i in turned]), perm=turned)
    return build.finish({"y": build.add("add", x=build.add("reshape", x=build.add("relu", x=x), shape=wanted),
                                        y=np.ones(wanted[-1], np.float16))})


@pytest.mark.parametrize(("shape", "wanted"), CUT)
@pytest.mark.parametrize("share", [128, 1024])
def test_reshapes_cut_into_pieces_keep_every_element(execute, monkeypatch, share, shape, wanted):
    monkeypatch.setattr(data_movement, "CELL_BYTES", 1 << 14)
    monkeypatch.setattr(data_movement, "CELL_SHARE", share)
    graph = reshaped(shape, wanted)
    inputs = {"input": np.random.default_rng(0).integers(-99, 99, graph.inputs[0].shape).astype(np.float16)}
    found = execute(compile(graph, precision="as-is"), inputs, "exact")
    np.testing.assert_array_equal(found["y"], evaluate(graph, inputs)["y"])


def test_a_reshape_of_many_small_rows_takes_few_tasks():
    [program] = compile(reshaped((65, 64, 8, 8), (65 * 64, 64)), precision="as-is").programs
    assert len(program.tasks) < 100  # a piece of L2 at a time; two for each of 4,160 rows would be as many


def test_copies_into_ports_are_no_part_of_the_last_operation(monkeypatch):
    build = GraphBuilder()
    x = build.add("relu", x=build.input("input", "fp16", (6, 5, 7)))
    y = build.add("reshape", x=x, shape=(10, 21))
    graph = build.finish({"x": x, "y": y, "z": build.add("exp", x=x)})
    monkeypatch.setattr(lowering, "MOST_OPERATIONS", 3)  # what y's port takes, of which one is left out later
    compile(graph)
    monkeypatch.setattr(lowering, "MOST_OPERATIONS", 1)
    with pytest.raises(UnsupportedError, match="result port: one operation"):
        compile(graph)
