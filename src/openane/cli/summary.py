"""What became of a model in lines that fit a screen: a line for each of few operations, counts by kind for many."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from textwrap import wrap

from openane.cli.output import table
from openane.compiler import Entry, Where
from openane.wording import plural

SCREEN = 20
"""Operations that are listed one by one."""
MOST = 6
"""Lines of one kind that are printed before the rest is counted."""
LONGEST_LINE = 100
WORDS = {
    Where.ENGINE: "", Where.HOST: "", Where.PORT: "", Where.FREE: "a change of shape or strides: nothing is executed",
    Where.FUSED: "in the last stage of the operation before", Where.FOLDED: "computed when the model was compiled"}
"""What is said of all operations of a kind together."""


def kind(entry: Entry) -> str:
    """What an entry's operation is called: the word before its name."""
    return entry.operation.partition(" ")[0]


def counts(entries: Iterable[Entry]) -> dict[Where, Counter[str]]:
    """How many operations of each kind are carried out where. One that runs in several programs counts once."""
    found: dict[Where, Counter[str]] = {}
    for where, operation in dict.fromkeys((entry.where, entry.operation) for entry in entries):
        found.setdefault(where, Counter())[operation.partition(" ")[0]] += 1
    return found


def operation_lines(entries: Sequence[Entry], every: bool, row: Callable[[Entry], str]) -> Iterator[str]:
    """Lines about the operations of a model: all where there are few or `every` one is asked for (`row` says what of
    it), else counts by kind, and those that the host computes."""
    if every or len(entries) <= SCREEN:
        yield from table([(e.where, e.operation.removeprefix(f"{e.where} "), row(e)) for e in entries], indent="  ")
        return
    for where, kinds in counts(entries).items():
        text = ", ".join(f"{count} {name}" for name, count in kinds.most_common() if where is not Where.PORT)
        text = text or plural(kinds.total(), "port") + " converted between the host's types and fp16"
        said = f"; {WORDS[where]}" if WORDS[where] else ""
        first, *more = wrap(text + said, LONGEST_LINE)
        yield f"  {where:6}  {first}"
        yield from (f"          {line}" for line in more)
    yield from at_most([f"  host    {e.operation}: {row(e)}" for e in entries if e.where is Where.HOST])
    yield "  --report lists every operation"


def at_most(lines: Sequence[str], every: bool = False) -> Iterator[str]:
    """The first few lines, and how many more there are."""
    shown = lines if every or len(lines) <= MOST else lines[:MOST - 1]
    yield from shown
    if len(shown) < len(lines):
        yield f"  ... and {len(lines) - len(shown)} more: --report"


__all__ = ["at_most", "counts", "kind", "operation_lines"]
