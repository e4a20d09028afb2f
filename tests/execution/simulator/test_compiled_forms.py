"""Tasks by compiled loops against the same tasks by numpy: equal bits and equal reports, whatever the operands hold."""

from __future__ import annotations

from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from support.h13 import CHIP, layout_of
from support.needs import library

from openane.engine import (
    Access,
    Binary,
    Coefficients,
    CoefficientSection,
    CoefficientStream,
    Convolution,
    Elementwise,
    GainOffset,
    Geometry,
    Operation,
    PassThrough,
    Pool,
    Pooling,
    Post,
    Reduce,
    Reduction,
    Root,
)
from openane.engine.operations import Activation
from openane.machine_code.described import TaskLoop
from openane.machine_code.halves import _away_of_bits, _even_of_bits, away, even
from openane.program import Buffer, Role
from openane.simulator import LoadedProgram, kernels, load_operations
from openane.simulator.arithmetic import encode_away, encode_even
from openane.simulator.coefficients import Gather
from openane.simulator.streams import CALL, WORDS

SPECIAL = np.array([0x7C00, 0xFC00, 0x7E01, 0xFE00, 0x8000, 0x0001, 0x83FF, 0x7BFF, 0xFBFF], np.uint16)


def access(slot: int, shape: tuple[int, ...]) -> Access:
    """An operand alone in its slot."""
    layout = layout_of(shape)
    return Access(slot=slot, shape=layout.shape, strides=layout.strides)


X, Y = (access(slot, (1, 12, 1, 9, 14)) for slot in (4, 5))
TURNED = replace(access(6, (1, 12, 1, 14, 9)), shape=(1, 12, 1, 9, 14), strides=(0, 14 * 64, 0, 2, 64))
TURNED_SMALL = replace(access(6, (1, 12, 1, 5, 4)), shape=(1, 12, 1, 4, 5), strides=(0, 5 * 64, 0, 2, 64))
RESULT = access(6, (1, 12, 1, 9, 14))
OPERATIONS: dict[str, Operation] = {
    "add and relu": Elementwise(first=X, second=Y, result=RESULT, function=Binary.ADD, relu=True),
    "every step": Elementwise(first=X, second=Y, result=RESULT, function=Binary.MULTIPLY, first_relu=True,
                              pre_scale=0.3, negate=True, absolute=True, second_relu=True, subtract=True, scale=1.7,
                              bias=-0.4),
    "maximum": Elementwise(first=X, second=Y, result=RESULT, function=Binary.MAXIMUM, negate=True),
    "minimum": Elementwise(first=X, second=Y, result=RESULT, function=Binary.MINIMUM),
    "square of a sum": Elementwise(first=X, second=Y, result=RESULT, function=Binary.SQUARE_SUM, scale=0.01),
    "one operand": Elementwise(first=X, result=RESULT, scale=3.3, bias=0.1),
    "turned": Elementwise(first=X, second=Y, result=TURNED, function=Binary.ADD),
    "broadcast": Elementwise(first=X, second=replace(Y, strides=(0, Y.strides[1], 0, 0, 0)), result=RESULT,
                             function=Binary.MULTIPLY),
    "gains": GainOffset(first=X, second=access(5, (1, 12, 1, 2, 1)), result=RESULT, scale=0.5, second_relu=True),
    "copy": PassThrough(source=X, result=TURNED),
    "sum": Reduction(first=X, result=access(6, (1, 12, 1, 1, 1)), reduce=Reduce.SUM, function=Binary.SQUARE_SUM),
    "largest": Reduction(first=X, second=Y, result=access(6, (1, 12, 1, 1, 1)), reduce=Reduce.MAXIMUM),
    "convolution": Convolution(source=X, result=access(6, (1, 12, 1, 9, 14)), kernel=(1, 3, 3), padding=(0, 1, 1),
                               post=Post(bias=0.25, scale=-0.75, activation=Activation.RELU)),
    "strided": Convolution(source=X, result=access(6, (1, 5, 1, 5, 7)), kernel=(1, 3, 3), stride=(1, 2, 2),
                           padding=(0, 1, 1)),
    "of one channel each": Convolution(source=X, result=access(6, (1, 12, 1, 9, 14)), kernel=(1, 3, 3),
                                       padding=(0, 1, 1), unicast=1, input_relu=True),
    "of one channel each, strided": Convolution(source=X, result=access(6, (1, 12, 1, 5, 7)), kernel=(1, 3, 3),
                                                stride=(1, 2, 2), padding=(0, 1, 1), unicast=1),
    "of one channel each, third columns": Convolution(source=X, result=access(6, (1, 12, 1, 3, 5)), kernel=(1, 5, 4),
                                                      stride=(1, 3, 3), padding=(0, 2, 1), unicast=1),
    "of one channel each, turned": Convolution(source=X, result=TURNED, kernel=(1, 3, 3), padding=(0, 1, 1), unicast=1,
                                               post=Post(scale=0.5)),
    "of two channels each": Convolution(source=X, result=access(6, (1, 6, 1, 7, 12)), kernel=(1, 3, 3), unicast=2),
    "scaled channels": Convolution(source=X, result=RESULT, unicast=1, kernel=(1, 1, 1),
                                   post=Post(bias=0.5, scale=0.3, activation=Activation.RELU)),
    "root of a mean": Reduction(first=X, result=access(6, (1, 12, 1, 1, 1)), reduce=Reduce.SUM,
                                function=Binary.SQUARE_SUM, final_scale=1 / 126, epsilon=1e-5, root=Root.RSQRT),
    "reciprocal of a sum": Reduction(first=X, result=access(6, (1, 12, 1, 1, 1)), reduce=Reduce.SUM, relu=True,
                                     root=Root.RECIPROCAL),
    "many rows": Reduction(first=replace(X, shape=(300, 12, 1, 9, 14), strides=(0, *X.strides[1:])),
                           result=replace(access(6, (300, 12, 1, 1, 1)), strides=(24, 2, 0, 0, 0)), reduce=Reduce.SUM),
    "pointwise, turned": Convolution(source=X, result=TURNED, post=Post(scale=0.01)),
    **{f"pool {pool}": Pooling(first=X, result=access(6, (1, 12, 1, 4, 6)), pool=pool, kernel=(3, 3), stride=(2, 2),
                               padding=(0, 0), final_scale=1 / 9) for pool in Pool},
    **{f"padded pool {pool}": Pooling(first=X, result=TURNED_SMALL, pool=pool, kernel=(2, 4), stride=(3, 3),
                                      padding=(1, 2), final_scale=0.2, relu=True) for pool in Pool},
}


def loaded(operation: Operation, arithmetic: str, words: np.ndarray) -> LoadedProgram:
    """One operation, its sources filled with words."""
    buffers = [Buffer(name, slot, Role.OUTPUT if name == "y" else Role.INPUT, 1 << 15)
               for name, slot in (("x", 4), ("z", 5), ("y", 6))]
    program = load_operations([operation], buffers, arithmetic=arithmetic, chip=CHIP)
    for turn, name in enumerate(("x", "z")):
        program.buffers[name].view(np.uint16)[:] = np.roll(words, turn)
    return program


def drawn(seed: int, special: bool) -> np.ndarray:
    """fp16 words of a buffer."""
    rng = np.random.default_rng(seed)
    words = (rng.standard_normal(1 << 14) * 10.0 ** rng.uniform(-6, 3, 1 << 14)).astype(np.float16).view(np.uint16)
    if special:
        words[::41] = rng.choice(SPECIAL, words[::41].size)
    return words


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
@pytest.mark.parametrize("special", [False, True])
@pytest.mark.parametrize("name", OPERATIONS)
def test_loops_give_the_bits_and_reports_of_numpy(name: str, special: bool, arithmetic: str) -> None:
    library("numba")
    words = drawn(len(name), special)
    plain, looped = (loaded(OPERATIONS[name], arithmetic, words) for _ in range(2))
    with mock.patch.object(kernels, "worth", return_value=False):
        wanted = plain.run()
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        found = []
        for _ in range(2):  # by itself, and as a sequence
            looped.buffers["y"].fill(0)
            found.append(looped.run())
            np.testing.assert_array_equal(looped.buffers["y"].view(np.uint16), plain.buffers["y"].view(np.uint16))
    for run in found:
        assert repr(run.tasks).replace("-0.0", "0.0") == repr(wanted.tasks).replace("-0.0", "0.0")


def column_programs(channels: int, rows: int, special: int = 0) -> tuple[list[LoadedProgram], np.ndarray]:
    """A product of one column, twice, and its constants, one of which is a special word."""
    geometry, lanes = Geometry(1, channels, rows), max(1, min(16, channels // CHIP.limits.coefficients.cores))
    streams = tuple(CoefficientStream(*stream) for stream in CHIP.limits.coefficients.dense(geometry, lanes,
                                                                                            bias=False).streams)
    rng = np.random.default_rng(channels)
    constants = rng.standard_normal(sum(stream.size for stream in streams) // 2).astype(np.float16)
    if special:
        constants.view(np.uint16)[5] = special
    source, result = access(4, (1, rows, 1, 1, 1)), access(6, (1, channels, 1, 1, 1))
    operation = Convolution(source=source, result=result,
                            coefficients=Coefficients.together(CoefficientSection.of(1, streams), lanes=lanes))
    buffers = [Buffer("x", 4, Role.INPUT, 1 << 17), Buffer("y", 6, Role.OUTPUT, 1 << 17)]
    programs = [load_operations([operation], buffers, constants.tobytes(), arithmetic="fast", chip=CHIP)
                for _ in range(2)]
    words = rng.standard_normal(1 << 16).astype(np.float16).view(np.uint16)
    for program in programs:
        program.buffers["x"].view(np.uint16)[:] = words
    return programs, constants


@pytest.mark.parametrize("special", [0, 0x7C00, 0x7E00])
def test_weights_of_a_column_are_unpacked_where_the_loop_does_not_do(special: int) -> None:
    library("numba")
    unpacked: list[object] = []
    read = Gather.read_weights
    with mock.patch.object(LoadedProgram, "_unpack"):  # as that of a verified program, it comes with the first run
        (plain, looped), _ = column_programs(288, 70, special)
    with mock.patch.object(kernels, "worth", return_value=False):
        plain.run()
    with mock.patch.object(kernels, "PATIENCE", 0.0), \
            mock.patch.object(Gather, "read_weights", lambda *given: unpacked.append(given) or read(*given)):
        looped.run()
        assert bool(unpacked) is bool(special)
        np.testing.assert_array_equal(plain.buffers["y"], looped.buffers["y"])
        for program in (plain, looped):
            program.buffers["x"].view(np.uint16)[:70] = 0x7C00  # infinities, which the loop leaves to numpy
            program.run()
        assert len(unpacked) == 1
    np.testing.assert_array_equal(plain.buffers["y"], looped.buffers["y"])


@pytest.mark.parametrize(("channels", "rows"), [(288, 70), (37, 33), (300, 3), (512, 1024)])
def test_a_column_times_constant_weights_adds_terms_in_their_order(channels: int, rows: int) -> None:
    library("numba")
    programs, constants = column_programs(channels, rows)
    with mock.patch.object(kernels, "worth", return_value=False):
        programs[0].run()
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        programs[1].run()
    plain, looped = (program.buffers["y"].view(np.uint16) for program in programs)
    np.testing.assert_array_equal(plain, looped)
    assert np.count_nonzero(plain) > channels // 2
    new = constants.copy()
    new[:len(new) // 2] *= np.float16(2)
    for program in programs:
        program.write_constants(new.tobytes(), [(0, 2 * len(new))])
        before = program.buffers["y"].copy()
        program.run()
        assert (program.buffers["y"] != before).any()
    np.testing.assert_array_equal(plain, looped)


def test_functions_of_few_elements_are_tabulated_in_time() -> None:
    library("numba")
    for operation in (Elementwise(first=X, result=RESULT, scale=0.3),
                      PassThrough(source=X, result=RESULT, post=Post(bias=0.7))):
        plain, looped = (loaded(operation, "fast", drawn(2, special=True)) for _ in range(2))
        with mock.patch.object(kernels, "worth", return_value=False):
            wanted = plain.run()
        with mock.patch.object(kernels, "PATIENCE", 0.0):
            found = [looped.run() for _ in range(WORDS // CALL + 2)]
        np.testing.assert_array_equal(looped.buffers["y"], plain.buffers["y"])
        assert {repr(run.tasks).replace("-0.0", "0.0") for run in found} == {
            repr(wanted.tasks).replace("-0.0", "0.0")}


def chain(special: bool) -> tuple[LoadedProgram, LoadedProgram]:
    """Pointwise convolutions of which some read what one before has read: the same words, words it has written or
    copied its result to, and the same words clamped. By numpy and by loops."""
    shape = (1, 12, 1, 9, 14)
    x, z, y = (access(slot, shape) for slot in (4, 5, 6))
    steps = [(x, y, False), (x, replace(y, offset=8192), False), (x, x, False), (x, y, True), (x, z, True),
             (z, y, False), (x, replace(y, copy=x), False), (x, z, False)]
    operations = [Convolution(source=source, result=result, input_relu=relu, post=Post(scale=0.1 * (1 + number)))
                  for number, (source, result, relu) in enumerate(steps)]
    programs = []
    for _ in range(2):
        buffers = [Buffer(name, slot, Role.INPUT, 1 << 15) for name, slot in (("x", 4), ("z", 5), ("y", 6))]
        program = load_operations(operations, buffers, arithmetic="fast", chip=CHIP)
        program.buffers["x"].view(np.uint16)[:] = drawn(5, special) & (0xFFFF if special else 0xBFFF)
        programs.append(program)
    return programs[0], programs[1]


@pytest.mark.parametrize("special", [False, True])
def test_elements_that_stay_decoded_are_those_in_memory(special: bool) -> None:
    library("numba")
    plain, looped = chain(special)
    with mock.patch.object(kernels, "worth", return_value=False):
        wanted = [plain.run() for _ in range(4)]
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        found = [looped.run() for _ in range(4)]
    for name in "xyz":
        np.testing.assert_array_equal(looped.buffers[name], plain.buffers[name])
    assert [repr(run.tasks).replace("-0.0", "0.0") for run in found] == [
        repr(run.tasks).replace("-0.0", "0.0") for run in wanted]
    bound = [task.step.task._task.bound[0] for task in looped._tasks]  # type: ignore[attr-defined]
    assert [each.source is not None for each in bound] == [False, True, True, False, True, False, False, False]


def test_loops_are_brought_when_they_are_worth_it() -> None:
    program = loaded(OPERATIONS["add and relu"], "fast", drawn(1, special=False))
    brought = mock.Mock(return_value=None)
    brought.cache_info.return_value.currsize = 0
    with mock.patch.object(kernels, "kernels", brought):
        with mock.patch.object(kernels, "at_hand", return_value=False):
            program.run()
            assert not brought.called
            assert not kernels.worth(kernels.SOON, kernels.MANY)
            with mock.patch.object(kernels, "PATIENCE", 0.0):
                program.run()
        assert brought.called
        with mock.patch.object(kernels, "at_hand", return_value=True):
            assert not kernels.worth(0.0, kernels.MANY - 1)
            assert kernels.worth(0.0, kernels.MANY)
            assert kernels.worth(kernels.SOON, 0)
        brought.cache_info.return_value.currsize = 1
        assert kernels.worth(0.0, 0)


def test_arrays_without_a_form_for_loops_are_refused() -> None:
    words = np.zeros(100, np.uint8)
    assert kernels.Flat.of(words[1:9].view(np.uint16)) is None
    assert kernels.Flat.of(words.view(np.uint16)[::-1]) is None
    assert kernels.Flat.of(words.view(np.uint16)[:0]) is None
    flat = kernels.Flat.of(words.view(np.uint16).reshape(5, 10)[1:, ::3])
    assert flat is not None
    assert flat.shape == (1, 1, 1, 4, 4)
    assert flat.strides == (0, 0, 0, 10, 3)
    assert flat.elements.size == 3 * 10 + 3 * 3 + 1


def test_places_merge_what_lies_in_one_run() -> None:
    shape = (2, 3, 1, 4, 5)
    strides = kernels.contiguous(shape)
    assert kernels.placed(shape, strides).tolist() == [1, 1, 1, 1, 120, *strides[:4], 1]
    assert kernels.placed(shape, strides, apart=2).tolist()[:5] == [2, 3, 1, 1, 20]
    padded = (96, 32, 0, 8, 1)
    assert kernels.placed(shape, strides, padded).tolist()[:5] == [2, 3, 1, 4, 5]


def numbers_to_round() -> np.ndarray:
    """float32 at ties, beside them, and anywhere."""
    bits = np.arange(0, 0x8000, 37, dtype=np.uint16).view(np.float16).astype(np.float32).view(np.uint32)
    near = np.concatenate([bits + np.uint32(more) for more in (0, 1, 0xFFF, 0x1000, 0x1001)])
    small = np.ldexp(np.float32(1), np.arange(-30, -12)) * np.array([[0.999], [1], [1.5], [2.5], [3.5]])
    drawn = np.random.default_rng(3).integers(0, 1 << 32, 2000, np.uint32)
    values = np.concatenate([near.view(np.float32), small.ravel().astype(np.float32), drawn.view(np.float32)])
    return np.concatenate([values, -values])


def _rounded_loop(source, words):  # type: ignore[no-untyped-def]
    for i in range(source.size):
        words[0, i], words[1, i] = away(source[i]), _away_of_bits(source[i])
        words[2, i], words[3, i] = even(source[i]), _even_of_bits(source[i])


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_numbers_are_rounded_alike_with_and_without_the_processors_conversions() -> None:
    library("numba")
    from openane.machine_code import building

    values = numbers_to_round()
    words = np.empty((4, values.size), np.int32)
    loop, = building.dispatched([TaskLoop(_rounded_loop, ("float32[::1]", "int32[:,::1]"))])
    loop(values, words)
    for found, plain in zip(words, (encode_away, encode_away, encode_even, encode_even), strict=True):
        np.testing.assert_array_equal(found, plain(values))
