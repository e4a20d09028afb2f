"""H13: tasks alike but for their addresses are encoded once, and as each would be on its own."""

from dataclasses import fields, replace
from itertools import count

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13_operations import neural_operations, planar_operations, with_plain_second

from openane.chips import get_chip
from openane.chips.emit import program, tiling
from openane.chips.emit.latest import Latest
from openane.engine import Access, CoefficientStream, Post, Space, Streams
from openane.errors import ProgramError

CHIP = get_chip("h13")
STEP = 16 * 64


def emitted(operations, layout):
    """The words and offsets of a program, or the message of its refusal."""
    try:
        return [(task.words, task.offset) for task in CHIP.emit(operations, layout)]
    except ProgramError as error:
        return str(error)


def each_alone(operations, layout):
    """The same with nothing encoded once for several tasks."""
    with pytest.MonkeyPatch.context() as patch:
        numbers = count()
        patch.setattr(tiling, "forms", lambda operations: list(range(len(operations))))
        patch.setattr(program, "task_key", lambda *_: next(numbers))
        return emitted(operations, layout)


@st.composite
def elsewhere(draw, operation):
    """The operation with other addresses, and some of its numbers the other zero."""
    def moved(access):
        if access is None:
            return None
        offset = 0 if access.space is Space.CHAIN else access.offset + STEP * draw(st.integers(0, 3))
        return replace(access, offset=offset, copy=moved(access.copy))

    changes = {}
    for field in fields(operation):
        value = getattr(operation, field.name)
        if isinstance(value, Access):
            changes[field.name] = moved(value)
        elif field.name == "coefficients" and value is not None:
            step = STEP * draw(st.integers(0, 3))
            changes[field.name] = value.moved(lambda section, step=step: section.moved(section.slot, step))
        elif isinstance(value, Post) and value.bias == 0 and draw(st.booleans()):
            changes[field.name] = replace(value, bias=-value.bias)
        elif isinstance(value, float) and value == 0 and draw(st.booleans()):
            changes[field.name] = -value
    return replace(operation, **changes)


@st.composite
def programs(draw):
    """A few operations, each several times at other addresses."""
    kinds = draw(st.lists((neural_operations() | planar_operations()).map(with_plain_second), min_size=1, max_size=3))
    return [draw(elsewhere(draw(st.sampled_from(kinds)))) for _ in range(draw(st.integers(1, 7)))]


@settings(max_examples=80, deadline=None,
          suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much])
@given(programs(), st.sampled_from(["macos26", "compat"]))
def test_a_program_is_what_its_tasks_are_on_their_own(operations, layout):
    assert emitted(operations, layout) == each_alone(operations, layout)


@given(st.data(), st.integers(2, 6))
def test_repeats_that_hardware_cannot_express_are_refused_by_number(data, length):
    operation = with_plain_second(data.draw(neural_operations()))
    wrong = replace(operation, result=replace(operation.result, offset=operation.result.offset + 1))
    found = emitted([operation] * (length - 1) + [wrong], "macos26")
    assert isinstance(found, str)
    assert found == each_alone([operation] * (length - 1) + [wrong], "macos26")


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20)), max_size=30), st.integers(0, 50), st.integers(1, 20))
def test_the_latest_writer_of_some_of_the_bytes(writes, low, size):
    latest = Latest()
    for task, (first, length) in enumerate(writes):
        latest.write(first, first + length, task)
    over = [task for task, (first, length) in enumerate(writes) if first < low + size and low < first + length]
    assert latest.over(low, low + size) == max(over, default=None)


PARTS = st.lists(st.builds(CoefficientStream, st.integers(0, 15), st.integers(0, 400), st.integers(1, 99)),
                 max_size=16).map(tuple)


@given(PARTS, st.integers(0, 1000))
def test_streams_are_the_sequence_they_stand_for(parts, offset):
    streams, plain = Streams(parts, offset), tuple(s._replace(offset=s.offset + offset) for s in parts)
    assert streams == plain
    assert plain == streams
    assert hash(streams) == hash(Streams.of(plain))
    assert (list(streams), len(streams), repr(streams)) == (list(plain), len(plain), repr(plain))
    assert streams == Streams.of(plain)
    assert Streams.of(streams) is streams
    assert streams.start == min((stream.offset for stream in plain), default=0)
    assert streams.end == max((stream.offset + stream.size for stream in plain), default=1)
    if parts:
        assert streams != Streams(parts, offset + 1)
        assert (streams[0], streams[1:]) == (plain[0], plain[1:])
