"""H13: the rules behind the fields that decide nothing, each on the cases that show it."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import coefficients_at
from support.records import record_words

from openane.chips import get_chip
from openane.chips.emit.estimate import microseconds
from openane.chips.emit.flow import Producer, flows
from openane.chips.emit.patches import best_shape, patch
from openane.chips.emit.repeats import forms
from openane.chips.emit.rings import Planner
from openane.engine import (
    Access,
    CoefficientStream,
    Convolution,
    DType,
    Elementwise,
    PassThrough,
    Reduction,
    Space,
)
from openane.errors import ProgramError

CHIP = get_chip("h13")
BANKS, CELL, row_pad = CHIP.limits.banks.count, CHIP.limits.banks.line, CHIP.limits.banks.row_pad


def surface(shape, slot, element=2):
    n, c, d, h, w = shape
    row = -(-w * element // 64) * 64
    return Access(slot=slot, shape=shape, strides=(row * h * d * c, row * h * d, row * h, row, element))


def resident(shape, offset=0, swapped=False):
    n, c, d, h, w = shape
    if swapped:
        pitch = -(-c * 2 // 16) * 16
        return Access(space=Space.L2, offset=offset, shape=shape, strides=(0, 2, 0, w * pitch, pitch))
    pitch = -(-w * 2 // 16) * 16
    row = c * pitch + row_pad(c * pitch, h)
    return Access(space=Space.L2, offset=offset, shape=shape, strides=(0, pitch, 0, row, 2))


def weights(cores=16, size=0x400, lanes=1):
    return coefficients_at(1, tuple(CoefficientStream(c, c * size, size) for c in range(cores)), lanes=lanes)


def decoded(operations):
    return [CHIP.decode(task.words).values for task in CHIP.emit(operations)]


# Row pitches of tensors in the records, in cells: what a row needs, rows, what it has.
PITCHES = [(64, 8, 66), (128, 16, 130), (4096, 16, 4098), (96, 16, 97), (84, 224, 84), (32, 64, 33), (8, 64, 9),
           (1, 8, 2), (8, 2, 8), (1536, 16, 1538)]


@pytest.mark.parametrize(("cells", "rows", "pitch"), PITCHES)
def test_rows_are_padded_as_recorded(cells, rows, pitch):
    assert cells * CELL + row_pad(cells * CELL, rows) == pitch * CELL


@given(st.integers(1, 1 << 16), st.integers(1, 64))
def test_padded_rows_begin_in_different_banks(line, rows):
    pitch = (-(-line // CELL) * CELL + row_pad(line, rows)) // CELL
    starts = [row * pitch % BANKS for row in range(min(rows, 16))]
    assert len(set(starts)) == len(starts)


@pytest.mark.parametrize(("width", "shape"), [(1, 4), (8, 4), (14, 3), (16, 3), (64, 1), (224, 2), (256, 0), (128, 0)])
def test_patches_cover_a_width_with_least_waste(width, shape):
    assert best_shape(width, CHIP.policy.patches) == shape


@pytest.mark.parametrize(("source", "result", "stream", "expected"), [
    ((1, 64, 1, 8, 8), (1, 64, 1, 8, 8), 0x200, (4, 4, 4, True)),       # small result
    ((1, 64, 1, 16, 16), (1, 64, 1, 16, 16), 0x200, (0, 0, 3, False)),  # any shape up to 8 rows
    ((1, 64, 1, 16, 16), (1, 128, 1, 14, 14), 0x2400, (3, 3, 3, False)),
    ((1, 1024, 1, 1, 1), (1, 1024, 1, 1, 1), 0x20000, (0, 0, 0, False)),  # small, but its weights are not
])
def test_patches_of_convolutions(source, result, stream, expected):
    kernel = source[3] - result[3] + 1
    found = patch(Convolution(source=surface(source, 4), result=surface(result, 5), kernel=(1, kernel, kernel),
                              coefficients=weights(size=stream)), CHIP.policy.patches)
    assert (found.prefer, found.fewest, found.most, found.small) == expected


@pytest.mark.parametrize(("shape", "expected"), [
    ((1, 64, 1, 1, 1), 0), ((1, 512, 1, 1, 1), 4), ((1, 4096, 1, 1, 1), 36), ((1, 64, 1, 8, 8), 2),
    ((1, 128, 1, 16, 16), 11)])
def test_estimate_of_recorded_additions(shape, expected):
    a, b, y = (surface(shape, slot) for slot in (4, 5, 6))
    assert microseconds(Elementwise(first=a, second=b, result=y), CHIP.policy) == expected


def test_estimate_counts_coefficients():
    operation = Convolution(source=surface((1, 2048, 1, 1, 1), 4), result=surface((1, 2048, 1, 1, 1), 5),
                            coefficients=weights(size=2048 * 2048 * 2 // 16))
    assert microseconds(operation, CHIP.policy) == (2048 * 2048 * 2 + 2 * 2048 * 64) // 34133


SHAPE = (1, 64, 1, 8, 8)
FIRST = PassThrough(source=surface(SHAPE, 4), result=resident(SHAPE))


def test_a_neural_task_follows_the_result_it_reads_as_it_lies():
    after = PassThrough(source=resident(SHAPE), result=surface(SHAPE, 5))
    values = decoded([FIRST, after])
    assert flows([FIRST, after], CHIP.limits)[1].pipelined
    assert values[1]["L2.SourceCfg.Dependent"] == 1
    assert not values[1]["L2.SourceCfg.AliasConvRslt"]


def test_a_planar_task_waits_for_the_result_it_reads():
    other = Elementwise(first=surface(SHAPE, 5), second=resident(SHAPE), result=surface(SHAPE, 6))
    before, after = flows([FIRST, other], CHIP.limits)
    assert after.producers == (None, Producer(0, False))
    assert not after.pipelined
    values = decoded([FIRST, other])[1]
    assert values["L2.SourceCfg.AliasConvRslt"] == 1
    assert not values["L2.ResultCfg.AliasConvRslt"]
    assert (before.begins, before.ends, after.begins, after.ends) == (True, False, False, True)


def test_planar_work_is_marked_from_producer_to_reader():
    mean = Reduction(first=surface(SHAPE, 4), result=Access(space=Space.L2, offset=0x8000, shape=(1, 64, 1, 1, 1),
                                                            strides=(0, 16, 0, 0, 0)))
    copy = PassThrough(source=surface(SHAPE, 5), result=resident(SHAPE))
    wide = Access(space=Space.L2, offset=0x8000, shape=SHAPE, strides=(0, 16, 0, 0, 0))
    last = Elementwise(first=resident(SHAPE), second=wide, result=surface(SHAPE, 6))
    values = decoded([mean, copy, last])
    assert [v["NE.KernelCfg.NextPlanar"] for v in values] == [1, 1, 0]
    assert [v["NE.KernelCfg.PreviousPlanar"] for v in values] == [0, 0, 1]
    assert [v["Header.Control.DisallowAbort"] for v in values] == [1, 1, 0]


def product(rows, inputs, outputs):
    """A product [rows, inputs] by constant weights: transposed into L2, then a convolution, transposed back."""
    pixels = Access(space=Space.L2, shape=(1, rows, 1, 1, inputs), strides=(0, 2, 0, 0, 16))
    read = Access(space=Space.L2, shape=(1, inputs, 1, 1, rows), strides=(0, 16, 0, 0, 2))
    x = Access(slot=5, shape=(1, rows, 1, 1, inputs), strides=(0, inputs * 2, 0, 0, 2))
    y = Access(slot=4, shape=(1, outputs, 1, 1, rows), strides=(0, 2, 0, 0, outputs * 2))
    return [PassThrough(source=x, result=pixels), Convolution(source=read, result=y, coefficients=weights(lanes=16))]


def test_a_transposed_copy_handed_to_a_product_is_stated_as_memory():
    copy, compute = decoded(product(8, 256, 256))
    assert (copy["Header.Control.DPC"], compute["Header.Control.SPC"]) == (1, 1)
    assert (copy["Header.Bases.WBase"], compute["Header.Bases.RBase0"]) == (3, 3)
    assert compute["TileDMASrc.DMAConfig.DependencyMode"] == 4
    assert copy["TileDMADst.DMAConfig.En"] == compute["TileDMASrc.DMAConfig.En"] == 0
    assert copy["TileDMASrc.RowStride.Stride"] == 8 * 256 * 2  # rows read as channels: the whole surface


def test_parts_of_a_surface_state_all_of_it():
    first, second = (Convolution(source=surface((1, 64, 1, 1, 64), 5), coefficients=weights(lanes=2), result=Access(
        slot=4, offset=part * 32 * 128, shape=(1, 32, 1, 1, 64), strides=(0, 128, 0, 0, 2))) for part in (0, 1))
    assert [flow.surface for flow in flows([first, second], CHIP.limits)] == [64 * 128, 64 * 128]


def test_rings_lie_above_what_a_task_has_in_l2():
    other = Elementwise(first=surface(SHAPE, 5), second=resident(SHAPE), result=surface(SHAPE, 6))
    operations = [FIRST, other]
    plan = Planner(operations, forms(operations), CHIP.policy).plan(1, None, flows(operations, CHIP.limits)[1])
    assert plan is not None
    assert plan.rings["first"].base == 8 * 0x420
    assert plan.rings["result"].base == 2 * 8 * 0x420


def test_rings_shrink_where_residents_leave_little_room():
    shape = (1, 256, 1, 64, 64)
    held = Access(space=Space.L2, shape=(1, 200, 1, 64, 64), strides=(0, 128, 0, 25600, 2))
    copy = PassThrough(source=surface((1, 200, 1, 64, 64), 4), result=held)
    scaled = Elementwise(first=surface(shape, 5), result=surface(shape, 6), scale=2.0)
    last = Elementwise(first=held, result=surface((1, 200, 1, 64, 64), 7))
    values = decoded([copy, scaled, last])
    assert values[1]["Common.TileCfg.TileHeight"] < 64
    assert values[1]["L2.SourceBase.Addr"] >= 64 * 25600


def test_bytes_use_wider_tiles():
    shape = (1, 4, 1, 1, 512)
    operation = PassThrough(**{side: Access(slot=slot, shape=shape, strides=(0, 512, 0, 0, 1), dtype=DType.UINT8)
                               for side, slot in (("source", 4), ("result", 5))})
    assert decoded([operation])[0]["L2.SourceChannelStride.Stride"] == 256


@given(st.data())
def test_any_view_of_a_result_in_l2_survives(data):
    """A task writes a tensor to L2, the next one reads it with its dimensions in other roles."""
    extents = data.draw(st.tuples(*(st.sampled_from([1, 2, 3, 8, 40]) for _ in range(4))))
    swapped = data.draw(st.booleans())
    inner = data.draw(st.sampled_from([0, 3]) if swapped else st.just(3))
    order = [inner, *(axis for axis in (0, 3, 1, 2) if axis != inner)]
    strides, step = [0] * 4, 2
    for axis in order:
        strides[axis] = step
        step = -(-step * extents[axis] // 16) * 16
    place = {"space": Space.L2, "offset": data.draw(st.sampled_from([0, 0x100]))}
    written = Access(**place, shape=(1, *extents), strides=(0, *strides))
    roles = data.draw(st.permutations(range(4)))
    read = Access(**place, shape=(1, *(extents[r] for r in roles)), strides=(0, *(strides[r] for r in roles)))
    operations = [PassThrough(source=surface((1, *extents), 4), result=written),
                  Elementwise(first=read, result=surface(read.shape, 5))]
    try:
        tasks = CHIP.emit(operations)
    except ProgramError:
        return
    assert [CHIP.operation(task.words) for task in tasks] == operations


def test_our_words_are_apples(corpus):
    """Apple's own operations, encoded by our rules: the words of every record, and how many records wholly."""
    equal = total = whole = 0
    for path in sorted((corpus / "apple/oracles").glob("*.json")):
        tasks = [record_words(task) for task in json.loads(path.read_text())["tasks"]]
        emitted = CHIP.emit([CHIP.operation(words) for words in tasks])
        same = [sum(a == b for a, b in zip(words, task.words, strict=True))
                for words, task in zip(tasks, emitted, strict=True)]
        whole += same == [len(words) for words in tasks]
        equal, total = equal + sum(same), total + sum(map(len, tasks))
    assert equal / total >= 0.999
    assert whole >= 41
