"""The timing model's rules: what decides, what overlaps, what is fetched once; every chip has rates."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.h13 import LIMITS, coefficients_at

from openane.chips.machines import SOCS, Known
from openane.engine import Access, Binary, CoefficientStream, Convolution, Elementwise, Operation, Space
from openane.errors import UnsupportedError
from openane.timing import (
    ClockState,
    EnginePart,
    SubmissionRoute,
    Work,
    copies,
    dispatch,
    rates,
    schedule,
    times,
    waking,
    work,
)

M1 = rates("m1")


def dense(channels: int, height: int, width: int, space: Space = Space.L2) -> Access:
    return Access(space=space, slot=4 if space is Space.MEMORY else 0, shape=(1, channels, 1, height, width),
                  strides=(0, height * width * 2, 0, width * 2, 2))


def conv(inputs: int, outputs: int, height: int = 32, width: int = 32, *, kernel: int = 1, at: int = 0,
         space: Space = Space.L2) -> Convolution:
    size = inputs * outputs * kernel * kernel * 2 // 16
    streams = tuple(CoefficientStream(core, at + core * size, size) for core in range(16))
    return Convolution(source=dense(inputs, height, width, space), result=dense(outputs, height, width, space),
                       kernel=(1, kernel, kernel), padding=(0, kernel // 2, kernel // 2),
                       coefficients=coefficients_at(1, streams, lanes=LIMITS.lanes.convolution(outputs, height, width)))


def add(channels: int, height: int, width: int, space: Space = Space.MEMORY) -> Elementwise:
    first = dense(channels, height, width, space)
    return Elementwise(first=first, second=first, result=first, function=Binary.ADD)


@pytest.mark.parametrize("soc", SOCS, ids=lambda soc: soc.name)
def test_every_chip_has_rates_and_says_what_is_guessed(soc) -> None:
    found = rates(soc)
    for figure in (found.cores, found.clock, found.l2_clock, found.kernel, found.tile):
        assert figure.value
        assert figure.value > 0
        assert figure.known is not None
    assert set(found.guessed) <= {"cores", "clock", "l2_clock", "kernel", "tile"}


def test_names_that_stand_for_several_speeds_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="name the chip"):
        rates("MacBook Pro 2024")
    assert rates("MacBook Air 2020").chip == "m1"
    assert rates("h13").generation == "h13"


def test_multiplications_and_bytes_are_counted() -> None:
    asked = work(conv(64, 128, 16, 32, kernel=3, space=Space.MEMORY), M1)
    assert asked.multiplies == 64 * 128 * 9 * 16 * 32
    assert asked.array_cycles == asked.multiplies // 4096
    assert asked.kernel_bytes == 64 * 128 * 9 * 2
    assert asked.tile_bytes == (64 + 128) * 16 * 32 * 2
    assert work(add(4, 8, 20), M1).tile_bytes == 3 * 4 * 8 * 64  # rows of 40 bytes move in bursts of 64
    assert work(add(4, 8, 20, Space.L2), M1).tile_bytes == 0


def test_a_pass_takes_as_long_as_its_blocks_have_lanes() -> None:
    cycles = [work(conv(64, outputs), M1).array_cycles for outputs in (128, 256, 272, 384, 512)]
    assert [each / cycles[1] for each in cycles] == [1 / 2, 1, 17 / 16, 3 / 2, 2]
    assert work(conv(64, 512), M1).l2_read == 2 * work(conv(64, 256), M1).l2_read  # a pass reads the source once
    assert work(conv(64, 1), M1).array_cycles == work(conv(64, 16), M1).array_cycles  # one core works, fifteen wait


@given(st.integers(1, 2000), st.sampled_from([1, 2, 4, 8, 16]))
def test_cycles_are_enough_for_the_products_and_grow_with_channels(outputs: int, lanes: int) -> None:
    def asked(channels: int) -> Work:
        layer = conv(8, channels)
        return work(replace(layer, coefficients=replace(layer.coefficients, lanes=lanes)), M1)

    assert asked(outputs).array_cycles * 4096 >= asked(outputs).multiplies
    assert asked(outputs).array_cycles <= asked(16 * -(-outputs // 16)).array_cycles


def test_3x3_layers_take_two_thirds_where_an_engine_has_the_winograd_form() -> None:
    def spent(operation: Operation, chip: str) -> float:
        return times(operation, rates(chip)).parts[EnginePart.MULTIPLY]

    layer, odd = conv(256, 256, kernel=3), conv(256, 256, width=31, kernel=3)
    strided = replace(layer, stride=(1, 2, 2))
    for chip in ("m5", "m6"):
        assert spent(layer, chip) == pytest.approx(spent(strided, chip) * 2 / 3)
        assert spent(odd, chip) == pytest.approx(spent(layer, chip))  # results come in pairs
    assert spent(layer, "m4") == spent(strided, "m4")
    assert spent(conv(256, 256), "m6") == pytest.approx(spent(layer, "m6") / 6)


@pytest.mark.parametrize(("operation", "part"), [
    (conv(256, 256, 64, 64, kernel=3), EnginePart.MULTIPLY), (conv(2048, 2048, 1, 1), EnginePart.KERNEL),
    (add(64, 64, 64), EnginePart.TILE), (add(64, 64, 64, Space.L2), EnginePart.L2),
])
def test_what_decides(operation: Operation, part: EnginePart) -> None:
    assert schedule([operation], M1).tasks[0].bound is part


def test_coefficients_come_in_under_the_task_before() -> None:
    first, second = conv(256, 256, 64, 64, kernel=3), conv(256, 256, 64, 64, kernel=3, at=1 << 24)
    alone, both = schedule([first], M1), schedule([first, second], M1)
    hidden = times(second, M1).parts[EnginePart.KERNEL]
    assert hidden > 0
    assert both.tasks[1].kernel_end < both.tasks[0].end
    assert both.seconds == pytest.approx(2 * alone.seconds)
    waiting = schedule([first, conv(4096, 4096, 1, 1, at=1 << 24)], M1)
    assert waiting.tasks[1].bound is EnginePart.KERNEL
    assert waiting.seconds < alone.seconds + waiting.tasks[1].times.parts[EnginePart.KERNEL] + 1e-6


def test_what_a_core_holds_is_not_fetched_again() -> None:
    shared = schedule([conv(512, 512, 1, 64)] * 8, M1)
    own = schedule([conv(512, 512, 1, 64, at=k << 24) for k in range(8)], M1)
    assert sum(task.times.parts[EnginePart.KERNEL] > 0 for task in shared.tasks) == 1
    assert shared.seconds < own.seconds
    large = schedule([conv(2048, 2048, 1, 64)] * 2, M1)  # 512 KiB a core: more than it holds
    assert all(task.times.parts[EnginePart.KERNEL] > 0 for task in large.tasks)


def test_repeated_payloads_cost_only_where_they_were_measured() -> None:
    layer = conv(4096, 4096, 1, 64)
    usual = conv(4096, 4080, 1, 64)
    for chip, ratio in (("m4 max", 3.0), ("m5 pro", 0.9)):
        assert schedule([layer], rates(chip)).seconds > ratio * schedule([usual], rates(chip)).seconds
    assert schedule([layer], rates("m5 pro")).seconds < 1.1 * schedule([usual], rates("m5 pro")).seconds


def test_the_lowest_clock_is_slower_in_every_part() -> None:
    low = rates("m1 max", ClockState.LOWEST)
    for operation in (conv(256, 256, 64, 64, kernel=3), conv(2048, 2048, 1, 1), add(64, 64, 64)):
        assert schedule([operation], low).seconds > 3 * schedule([operation], rates("m1 max")).seconds
    assert low.clock.known is Known.DERIVED


@given(st.lists(st.sampled_from([conv(64, 64), conv(512, 512, kernel=3), add(8, 8, 8), conv(32, 600, at=4096)]),
                min_size=1, max_size=12), st.sampled_from(["m1", "m4 max", "m6"]))
def test_tasks_follow_each_other(operations: list[Operation], chip: str) -> None:
    found = schedule(operations, rates(chip))
    end = 0.0
    for task in found.tasks:
        assert task.start >= end - 1e-15
        assert task.end > task.start
        assert task.kernel_start <= task.start + 1e-15
        end = task.end
    assert found.seconds == end
    assert sum(found.decided(part) for part in EnginePart) == pytest.approx(sum(task.seconds for task in found.tasks))
    slower = schedule([*operations, operations[0]], rates(chip))
    assert slower.seconds > found.seconds


def test_routes() -> None:
    assert dispatch("m1", SubmissionRoute.ENGINE).value == 0
    assert (dispatch("m1", SubmissionRoute.LINUX).value or 0) < (dispatch("m1", SubmissionRoute.MACOS).value or 0)
    assert dispatch("m3 pro", SubmissionRoute.MACOS).known is Known.GUESS
    assert copies("m1", 1 << 20, 0).value == pytest.approx((1 << 20) / 10.9e9)


def test_a_call_waits_longer_for_longer_programs_up_to_a_limit() -> None:
    waits = [waking("m4 max", busy) for busy in (0.0, 1e-4, 2e-4, 1.0)]
    assert waits[0] == 0
    assert waits[1] == pytest.approx(waits[2] / 2)
    assert waits[2] == waits[3]
    assert waking("m6", 1.0) == pytest.approx(195e-6)
    assert waking("m1", 1.0) == 0
    assert dispatch("m4 max", SubmissionRoute.MACOS, 1.0).value == pytest.approx((dispatch("m4 max", SubmissionRoute.MACOS).value or 0)
                                                                                 + waits[3])
    assert dispatch("m4 max", SubmissionRoute.ENGINE, 1.0).value == 0


def test_a_chip_nobody_has_measured_borrows_from_the_one_most_like_it() -> None:
    assert dispatch("m4 pro", SubmissionRoute.MACOS) == replace(dispatch("m4 max", SubmissionRoute.MACOS),
                                                                known=Known.GUESS)
    assert dispatch("a17 pro", SubmissionRoute.MACOS).known is Known.GUESS
    assert rates("a17 pro").tile.value == rates("m4").tile.value
    assert rates("a17 pro").tile.known is Known.GUESS
