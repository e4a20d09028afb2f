"""Runs as sequences of loop calls in machine code against runs task by task: equal bits and equal reports, whatever the
operands hold, and whatever changes between runs."""

from __future__ import annotations

import gc
import pickle
import weakref
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
    Geometry,
    MatrixProduct,
    Operation,
    Post,
    Reduce,
    Reduction,
)
from openane.machine_code.records import RecordLayout
from openane.program import Buffer, Role
from openane.simulator import LoadedProgram, RunReport, kernels, load_operations, sequences

CHANNELS, ROWS = 64, 48
SPECIAL = np.array([0x7C00, 0xFC00, 0x7E01, 0x7BFF, 0x8000, 0x0001], np.uint16)
SLOTS = {"x": 4, "weights": 5, "a": 6, "b": 7, "c": 8, "d": 9, "e": 10}


def access(name: str, channels: int, columns: int, offset: int = 0) -> Access:
    """An operand in the buffer of that name."""
    layout = layout_of((1, channels, 1, 1, columns))
    return Access(slot=SLOTS[name], shape=layout.shape, strides=layout.strides, offset=offset)


def coefficients(slot: int) -> tuple[Coefficients, int]:
    """Dense weights [CHANNELS, ROWS], and how many halfwords hold them."""
    dense = CHIP.limits.coefficients.dense(Geometry(1, CHANNELS, ROWS), 4, bias=False)
    streams = tuple(CoefficientStream(*stream) for stream in dense.streams)
    return Coefficients.together(CoefficientSection.of(slot, streams), lanes=4), sum(s.size for s in streams) // 2


def operations(columns: int) -> list[Operation]:
    """Of which products follow one another on the same elements, have weights that change, and stand between others."""
    x, a = access("x", ROWS, columns), access("a", ROWS, columns)
    b, c, d = (access(name, CHANNELS, columns) for name in "bcd")
    changing, constant = coefficients(SLOTS["weights"])[0], coefficients(1)[0]
    return [
        Elementwise(first=x, result=a, scale=0.5, bias=0.1),
        MatrixProduct(source=a, result=b, coefficients=changing, post=Post(scale=0.25)),
        Convolution(source=a, result=c, coefficients=constant),
        Convolution(source=a, result=d, coefficients=constant, post=Post(scale=16.0), input_relu=True),
        Convolution(source=a, result=replace(d, offset=1 << 14), coefficients=constant, post=Post(scale=16.0)),
        Elementwise(first=b, second=c, result=c, function=Binary.MULTIPLY),
        Reduction(first=c, result=access("e", CHANNELS, 1), reduce=Reduce.SUM, function=Binary.SQUARE_SUM),
        Elementwise(first=d, second=b, result=b, function=Binary.ADD, relu=True),
    ]


def loaded(columns: int, arithmetic: str) -> LoadedProgram:
    """The program."""
    buffers = [Buffer(name, slot, Role.INPUT, 1 << 16) for name, slot in SLOTS.items()]
    constants = np.random.default_rng(7).standard_normal(coefficients(1)[1]).astype(np.float16)
    return load_operations(operations(columns), buffers, constants.tobytes(), arithmetic=arithmetic, chip=CHIP)


def filled(program: LoadedProgram, seed: int, special: str) -> None:
    """Draws the inputs, with words that are not finite in one of them."""
    rng = np.random.default_rng(seed)
    for name in ("x", "weights"):
        words = (rng.standard_normal(1 << 15) * 2.0 ** rng.integers(-4, 5)).astype(np.float16).view(np.uint16)
        if special == name:
            words[::37] = rng.choice(SPECIAL, words[::37].size)
            words[0] = SPECIAL[0]
        program.buffers[name].view(np.uint16)[:] = words


def text(report: RunReport) -> str:
    """A report's tasks; a zero's sign is nobody's."""
    return repr(report.tasks).replace("-0.0", "0.0")


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
@pytest.mark.parametrize("columns", [1, 5, 70])
def test_sequences_give_the_bits_and_reports_of_task_after_task(columns: int, arithmetic: str) -> None:
    library("numba")
    plain, sequenced = (loaded(columns, arithmetic) for _ in range(2))
    by_itself: list[int] = []
    execute = sequences.RunSequence._execute
    wanted, found = [], []
    for turn, special in enumerate(["", "", "x", "", "weights", "weights", "", "x", ""]):
        for program in (plain, sequenced):
            filled(program, turn, special)
        with mock.patch.object(kernels, "worth", return_value=False):
            wanted.append(plain.run())
        before = len(by_itself)
        with mock.patch.object(kernels, "PATIENCE", 0.0), mock.patch.object(
                sequences.RunSequence, "_execute",
                lambda sequence, number: (by_itself.append(number), execute(sequence, number))[1]):
            found.append(sequenced.run())
        for name in SLOTS:
            np.testing.assert_array_equal(sequenced.buffers[name], plain.buffers[name], f"{name} of run {turn}")
        if arithmetic == "fast" and turn:
            assert bool(by_itself[before:]) is bool(special), f"run {turn}"
    assert sequenced._sequences._known is not None
    assert [text(report) for report in found] == [text(report) for report in wanted]  # of all runs, looked at late


def test_tasks_on_elements_that_another_has_left_decoded_need_no_call_for_them() -> None:
    library("numba")
    program = loaded(1, "fast")
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        for turn in range(2):
            filled(program, turn, "")
            program.run()
    known = program._sequences._known
    assert known is not None
    assert known.whole
    assert [number for number, follows in enumerate(known._follows) if follows] == [2]
    loads = [known._owner[row] for row, call in enumerate(known._calls) if call.loop == "load"]
    assert loads == [1, 3, 4]  # the fourth is clamped


def test_a_sequence_is_made_anew_where_weights_change() -> None:
    library("numba")
    plain, sequenced = (loaded(1, "fast") for _ in range(2))
    count = coefficients(1)[1]
    for turn in range(4):
        new = np.random.default_rng(turn).standard_normal(count).astype(np.float16)
        for program in (plain, sequenced):
            filled(program, turn, "")
            if turn % 2 == 0:
                program.write_constants(new.tobytes(), [(0, 2 * count)])
        with mock.patch.object(kernels, "worth", return_value=False):
            plain.run()
        with mock.patch.object(kernels, "PATIENCE", 0.0):
            sequenced.run()
        np.testing.assert_array_equal(sequenced.buffers["d"], plain.buffers["d"])


def test_a_sequence_is_made_anew_where_buffers_move() -> None:
    library("numba")
    program = loaded(1, "fast")
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        for _ in range(3):
            filled(program, 1, "")
            program.run()
        wanted = program.buffers["b"].copy()
        store = program.buffers["x"].copy()
        program.buffers["x"].fill(0)
        program.bind("x", store)
        for _ in range(3):
            program.buffers["b"].fill(0)
            program.run()
            np.testing.assert_array_equal(program.buffers["b"], wanted)


def test_a_record_holds_numbers_as_loops_take_them() -> None:
    layout = RecordLayout((("float32", "int64", "boolean", "uint16[::1]"),), 7, 9)
    array = np.zeros(3, np.uint16)
    row = np.array(layout.record(0, (-0.5, -3, True, array), 2, 1))
    assert row[:3].tolist() == [0, 2, 1]
    assert row[3:4].view(np.float32)[0] == np.float32(-0.5)
    assert row[4:].tolist() == [-3, 1, id(array), 0, 0]


def run_twice() -> tuple[LoadedProgram, RunReport]:
    """A program, and the report of its second run: of a sequence."""
    program = loaded(1, "fast")
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        for turn in range(2):
            filled(program, turn, "")
            report = program.run()
    assert program._sequences._known is not None
    return program, report


def test_a_report_that_nobody_looked_at_holds_nothing_of_the_program() -> None:
    library("numba")
    program, report = run_twice()
    store = weakref.ref(program.buffers["x"])
    del program
    gc.collect()
    assert store() is None
    assert report.tasks[0].low is not None


def test_a_report_of_a_sequence_is_pickled_as_its_tasks() -> None:
    library("numba")
    report = run_twice()[1]
    kept = pickle.loads(pickle.dumps(report))
    assert kept == report
    assert kept.tasks[1].operation == "MatrixProduct"


def test_a_sequence_stays_where_no_weight_is_another() -> None:
    library("numba")
    program, _ = run_twice()
    known = program._sequences._known
    program.reload([])
    assert program._sequences._known is known
    program.reload([(0, 2)])
    assert program._sequences._known is None


@pytest.mark.parametrize("arithmetic", ["fast", "exact"])
def test_a_program_that_nobody_holds_is_given_back_at_once(arithmetic: str) -> None:
    """Not when Python looks for circles the next time: functions of a model are swapped for want of memory."""
    library("numba")
    program = loaded(5, arithmetic)
    with mock.patch.object(kernels, "PATIENCE", 0.0):
        for turn in range(2):
            filled(program, turn, "")
            program.run()
    assert program._sequences._known is not None
    store = weakref.ref(program.buffers["x"])
    looked = gc.isenabled()
    gc.disable()
    try:
        del program
        assert store() is None
    finally:
        if looked:
            gc.enable()
