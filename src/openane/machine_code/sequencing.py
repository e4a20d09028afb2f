"""Writes the function that runs records of loops: `int64 sequence(void *records, int64 first, int64 end)`, see
`machine_code.records`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from llvmlite import ir

from openane.machine_code.described import SEQUENCE
from openane.machine_code.halves import INFINITE, SIGN
from openane.machine_code.primitives import BYTES
from openane.machine_code.records import (
    ARGUMENTS,
    HIGH,
    LOOP,
    MOST_ZEROS,
    SIGNED_HIGH,
    SURVEY,
    ZEROS,
    RecordLayout,
)

WORD, PLACE, TRUTH = ir.IntType(32), ir.IntType(64), ir.IntType(1)


def write_sequence(module: Any, layout: RecordLayout, entries: Sequence[Any]) -> None:
    """`entries` are the functions of the loops, in their order."""
    kind = ir.FunctionType(PLACE, [PLACE.as_pointer(), PLACE, PLACE])
    _Sequence(ir.Function(module, kind, SEQUENCE), layout).write(entries)


class _Sequence:
    """The blocks of the function."""

    def __init__(self, function: Any, layout: RecordLayout) -> None:
        self._layout = layout
        self._records, self._first, self._end = function.args
        named = ("enter", "next", "call", "called", "judge", "store", "go_on", "stop")
        self._blocks = {name: function.append_basic_block(name) for name in named}
        self._function = function
        self._builder = ir.IRBuilder(self._blocks["enter"])

    def write(self, entries: Sequence[Any]) -> None:
        """All of it."""
        builder, blocks = self._builder, self._blocks
        builder.branch(blocks["next"])
        builder.position_at_end(blocks["next"])
        row = builder.phi(PLACE)
        row.add_incoming(self._first, blocks["enter"])
        builder.cbranch(builder.icmp_signed("<", row, self._end), blocks["call"], blocks["stop"])
        builder.position_at_end(blocks["call"])
        self._row = builder.gep(self._records, [builder.mul(row, ir.Constant(PLACE, self._layout.width))])
        status = self._calls(entries)
        builder.cbranch(builder.or_(builder.icmp_signed("!=", status, ir.Constant(WORD, 0)), self._is_wrong()),
                        blocks["stop"], blocks["judge"])
        builder.position_at_end(blocks["judge"])
        after = builder.add(row, ir.Constant(PLACE, 1))
        survey = self._field(SURVEY)
        builder.cbranch(builder.icmp_signed("<", survey, ir.Constant(PLACE, 0)), blocks["go_on"], blocks["store"])
        builder.position_at_end(blocks["store"])
        said = builder.xor(after, ir.Constant(PLACE, -1))  # -1 - after
        builder.cbranch(self._is_infinite(survey), blocks["stop"], blocks["go_on"])
        builder.position_at_end(blocks["go_on"])
        builder.branch(blocks["next"])
        row.add_incoming(after, blocks["go_on"])
        builder.position_at_end(blocks["stop"])
        reached = builder.phi(PLACE)
        for block, value in (("next", row), ("called", row), ("store", said)):
            reached.add_incoming(value, blocks[block])
        reached.add_incoming(row, self._chosen)
        builder.ret(reached)

    def _field(self, column: Any) -> Any:
        place = column if isinstance(column, ir.Value) else ir.Constant(PLACE, column)
        return self._builder.load(self._builder.gep(self._row, [place]))

    def _calls(self, entries: Sequence[Any]) -> Any:
        """Calls the loop of the record; what that says, 0 where all is well."""
        builder, called = self._builder, self._blocks["called"]
        self._chosen = builder.block
        choice = builder.switch(self._field(LOOP), self._blocks["stop"])
        said = []
        for number, entry in enumerate(entries):
            block = self._function.append_basic_block(f"loop_{number}")
            choice.add_case(ir.Constant(PLACE, number), block)
            builder.position_at_end(block)
            place = builder.gep(self._row, [ir.Constant(PLACE, self._layout.results)])
            passed = [self._argument(ARGUMENTS + i, kind) for i, kind in enumerate(entry.function_type.args[1:])]
            said.append((builder.call(entry, [builder.bitcast(place, BYTES), *passed]), block))
            builder.branch(called)
        builder.position_at_end(called)
        status = builder.phi(WORD)
        for value, block in said:
            status.add_incoming(value, block)
        return status

    def _argument(self, column: int, kind: Any) -> Any:
        """A column as what C passes."""
        builder, value = self._builder, self._field(column)
        if kind == BYTES:
            return builder.inttoptr(value, BYTES)
        if isinstance(kind, ir.FloatType):
            return builder.bitcast(builder.trunc(value, WORD), kind)
        if isinstance(kind, ir.DoubleType):
            return builder.bitcast(value, kind)
        return value if kind == PLACE else builder.trunc(value, kind)

    def _is_wrong(self) -> Any:
        """Whether a result is not zero that must be."""
        builder, zeros, wrong = self._builder, self._field(ZEROS), ir.Constant(TRUTH, 0)
        for number in range(MOST_ZEROS):
            asked = builder.icmp_signed(">", zeros, ir.Constant(PLACE, number))
            found = builder.icmp_signed("!=", self._field(self._layout.results + number), ir.Constant(PLACE, 0))
            wrong = builder.or_(wrong, builder.and_(asked, found))
        return wrong

    def _is_infinite(self, survey: Any) -> Any:
        """Whether an infinity was stored."""
        builder, found = self._builder, []
        for number, word in ((HIGH, int(INFINITE | SIGN)), (SIGNED_HIGH, int(INFINITE))):
            at = builder.add(survey, ir.Constant(PLACE, self._layout.results + number))
            found.append(builder.icmp_signed("==", self._field(at), ir.Constant(PLACE, word)))
        return builder.or_(*found)
