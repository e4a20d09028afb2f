"""From operations over virtual buffers to tasks: how much is kept in L2, and what cannot be done at all."""

from dataclasses import replace

import pytest
from support.h13 import CHIP, LIMITS

from openane.chips import EmittedTask
from openane.chips.emit.exponents import Contents
from openane.chips.emit.tiling import Tiling
from openane.compiler.buffers.storage import BufferKind, VirtualBuffer, VirtualBuffers
from openane.compiler.schedule import pipeline
from openane.compiler.schedule.pipeline import store
from openane.engine import Access, Elementwise, Space
from openane.errors import ProgramError, UnsupportedError

MIB = 1 << 20


def surface(slot: int, channels: int, height: int, width: int) -> Access:
    row = width * 2
    return Access(slot=slot, shape=(1, channels, 1, height, width), strides=(0, row * height, 0, row, 2))


def port(blocks: VirtualBuffers, size: int) -> int:
    return blocks.add(VirtualBuffer(size, BufferKind.PORT, "port"))


class Between:
    """A tensor of almost 1 MiB that is made, and read after an operation whose rows take `row` bytes of L2 twice."""

    def __init__(self, row: int) -> None:
        self.blocks = VirtualBuffers()
        ports = [port(self.blocks, MIB), port(self.blocks, 32 * row), port(self.blocks, 32 * row),
                 port(self.blocks, MIB)]
        kept = self.blocks.add(VirtualBuffer(MIB, BufferKind.SCRATCH))
        channels = row // 32  # the narrowest tile has 16 columns
        self.operations: list[Elementwise] = [
            Elementwise(first=surface(ports[0], 64, 15, 512), result=surface(kept, 64, 15, 512), scale=3.0),
            Elementwise(first=surface(ports[1], channels, 16, 32), result=surface(ports[2], channels, 16, 32),
                        scale=2.0),
            Elementwise(first=surface(kept, 64, 15, 512), result=surface(ports[3], 64, 15, 512), scale=5.0),
        ]
        self.ports = ports

    def stored(self, chip=CHIP):
        return store(chip, self.operations, self.blocks.table, self.ports, ["first", "wide", "last"])


@pytest.mark.parametrize(("row", "space"), [(64 << 10, Space.L2), (640 << 10, Space.MEMORY)])
def test_what_leaves_no_room_for_rings_is_not_kept(row, space):
    made = Between(row).stored()
    assert [operation.scale for operation in made.operations] == [3.0, 2.0, 5.0]
    assert made.operations[0].result.space is made.operations[2].first.space is space
    assert len(made.tasks) == 3


def test_what_no_share_gives_room_is_refused_by_name():
    with pytest.raises(UnsupportedError) as refusal:
        Between(MIB + 64).stored()
    assert refusal.value.operation == "wide"
    assert "one row of each streamed operand" in refusal.value.rule


def test_what_must_be_in_l2_and_exceeds_it_is_refused_by_name():
    made = Between(64 << 10)
    slot = made.operations[0].result.slot
    made.blocks.table[slot] = VirtualBuffer(LIMITS.l2_size + 64, BufferKind.L2)
    inside = [replace(made.operations[0], result=replace(made.operations[0].result, space=Space.L2)),
              made.operations[1], replace(made.operations[2], first=replace(made.operations[2].first,
                                                                            space=Space.L2))]
    with pytest.raises(UnsupportedError, match="kept in L2") as refusal:
        store(CHIP, inside, made.blocks.table, made.ports, ["first", "wide", "last"])
    assert refusal.value.operation == "first"


class Failing:
    """H13, whose emission fails; it counts how often it is asked to plan and to emit."""

    def __init__(self, error: Exception) -> None:
        self.limits, self._error = CHIP.limits, error
        self.planned = self.emitted = 0

    def tiling(self, operations) -> Tiling:
        self.planned += 1
        return CHIP.tiling(operations)

    def emit(self, operations, layout: str = "macos26", tiling: Tiling | None = None,
             contents: Contents | None = None) -> tuple[EmittedTask, ...]:
        self.emitted += 1
        raise self._error


@pytest.mark.parametrize("error", [ProgramError("no register holds this", task=1), UnsupportedError("wide", "a rule"),
                                   ZeroDivisionError()])
def test_a_failed_emission_is_an_error_and_nothing_is_planned_again(error):
    chip = Failing(error)
    with pytest.raises(type(error)) as caught:
        Between(64 << 10).stored(chip)
    assert caught.value is error
    assert (chip.planned, chip.emitted) == (1, 1)


def test_half_of_l2_is_tried_first_and_nothing_is_tried_after_what_fits(monkeypatch):
    shares = []
    resident = pipeline.resident
    monkeypatch.setattr(pipeline, "resident", lambda *given: shares.append(given[2]) or resident(*given))
    Between(64 << 10).stored()
    assert shares == [MIB]
    Between(640 << 10).stored()
    assert shares == [MIB, MIB, MIB // 2]
