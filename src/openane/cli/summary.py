"""What became of a model, for people: where its operations run, counted by kind, and what deserves a look.

The summary of a model of any size fits a screen: the operations of a small one are listed, those of others counted, and
`--report` lists every one.
"""

from __future__ import annotations

from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from textwrap import wrap
from typing import TYPE_CHECKING

from openane.chips import get_chip
from openane.chips.machines import chips_of
from openane.cli.output import shape_text, table, wrapped
from openane.compiler import Entry, Port, Where
from openane.wording import byte_text, line_text, plural

if TYPE_CHECKING:
    from openane.compiler import Model

FEW = 20
"""Up to so many entries a compilation lists its operations one by one."""
SHOWN = 9
"""Lines of what deserves a look in a summary."""
PORTS = 3
"""Ports of one side in a summary."""
NAME = 40
"""Characters of a port's name."""
LONGEST_LINE = 76
"""Characters of a line of kinds."""
MOST_KINDS = 12
COPIES = "result ports"
"""What the compiler's report calls the tasks that copy results to their buffers."""
LAST_STAGE = "in the last stage of "
MEANING = {Where.ENGINE: "tasks of their own", Where.FUSED: "in the task of another operation",
           Where.FREE: "layout only: nothing to execute", Where.FOLDED: "computed or merged beforehand",
           Where.HOST: "computed by the host"}
"""What it means for an operation to be there, in the order of the summary."""

Counts = dict[Where, Counter[str]]
PortText = tuple[str, str, str, str]
"""Name, element type, shape, and what is to be said of a port."""


def report_option(parser: ArgumentParser) -> None:
    """Declares `--report`."""
    parser.add_argument("--report", action="store_true", help="list every operation, where it runs and why, and all "
                        "there is to look at, instead of a summary")


def counted(entries: Iterable[Entry]) -> Counts:
    """How many operations of each kind are where: `conv`, or `relu after conv` where a task is shared. An operation
    that several programs have tasks of counts once; ports and copies to them are no operations."""
    found: Counts = {where: Counter() for where in MEANING}
    first: dict[str, int] = {}
    for entry in entries:
        if entry.where is Where.PORT or entry.operation == COPIES:
            continue
        if first.setdefault(entry.operation, entry.program) == entry.program:
            found[entry.where][_kind(entry)] += 1
    return found


def _kind(entry: Entry) -> str:
    kind = _operation(entry.operation)
    if entry.where is Where.FUSED and entry.reason.startswith(LAST_STAGE):
        return f"{kind} after {_operation(entry.reason.removeprefix(LAST_STAGE))}"
    return kind


def _operation(label: str) -> str:
    """The operation a label names: `conv` of `conv 'stem' (from ONNX Conv 'n0')`."""
    return label.partition(" ")[0]


def where_lines(entries: Sequence[Entry]) -> list[str]:
    """How many operations there are, and a line or two for each place they are at."""
    found = counted(entries)
    rows: list[tuple[str, str, str, str]] = []
    counts = {where: sum(kinds.values()) for where, kinds in found.items()}
    width = max(len(str(count)) for count in counts.values())
    for where, kinds in found.items():
        if not kinds and where is not Where.HOST:
            continue
        copies = where is Where.ENGINE and any(entry.operation == COPIES for entry in entries)
        first, *rest = _wrapped([*_kinds(kinds), *(["copies to output buffers"] if copies else [])])
        rows.append((str(where), str(counts[where]).rjust(width), MEANING[where], first))
        rows += [("", "", "", line) for line in rest]
    return [f"{plural(sum(counts.values()), 'operation')}:", *table(rows, indent="  ")]


def _kinds(kinds: Counter[str]) -> list[str]:
    """`53 conv`, `16 add`: the most frequent first, and together those beyond the first few."""
    ordered = sorted(kinds.items(), key=lambda item: (-item[1], item[0]))
    left = ordered[MOST_KINDS:]
    return [*(f"{count} {kind}" for kind, count in ordered[:MOST_KINDS]),
            *([f"{sum(count for _, count in left)} of {plural(len(left), 'other kind')}"] if left else [])]


def _wrapped(items: Sequence[str]) -> list[str]:
    """The items between commas, in lines none of which breaks inside an item; one empty line for none."""
    whole = ", ".join(item.replace(" ", "\xa0") for item in items)
    return [line.replace("\xa0", " ") for line in wrap(whole, LONGEST_LINE)] or [""]


def report_lines(model: Model) -> list[str]:
    """Every operation, converted port and copy of a model: where it is, its tasks, and why."""
    return table([(e.where, e.operation.removeprefix(f"{e.where} "), _tasks(e, model)) for e in model.report],
                 indent="  ")


def _tasks(entry: Entry, model: Model) -> str:
    tasks = f"task {entry.tasks[0]}" if len(entry.tasks) == 1 else f"tasks {entry.tasks[0]}..{entry.tasks[-1]}" \
        if entry.tasks else ""
    if tasks and len(model.programs) > 1:
        tasks = f"program {entry.program}, {tasks}"
    return ", ".join(part for part in (tasks, entry.reason) if part)


def host_lines(model: Model) -> list[str]:
    """Every operation the host computes, and the rule that keeps it from the engine."""
    return [f"host: {line_text(entry.operation)}: {entry.reason}" for entry in model.host_operations]


def look_lines(model: Model | None, more: Sequence[str] = (), complete: bool = False,
               listed: bool = False) -> list[str]:
    """What deserves a look: operations of a model on the host (unless they are `listed` elsewhere), numbers that leave
    fp16, and what the caller has `more` of. Unless all of it is asked for, the first few of each."""
    warnings = [] if model is None else [f"warning: {concern}" for concern in model.concerns]
    hosts = [] if model is None or listed else host_lines(model)
    lists = [list(lines) for lines in (hosts, warnings, more) if lines]
    lines = [line for each in lists for line in (each if complete else _first(each, SHOWN // len(lists)))]
    return ["what to look at:", *_fitting(lines, complete)] if lines else []


def _fitting(lines: Iterable[str], whole: bool) -> list[str]:
    pieces = [[line] if whole else wrapped(line, "  ", 118) for line in lines]
    return [f"  {piece}" for each in pieces for piece in each]


def _first(lines: Sequence[str], shown: int) -> list[str]:
    left = len(lines) - shown
    return [*lines[:shown], f"... and {left} more (--report lists them)"] if left > 0 else list(lines)


def said(model: Model | None, report: bool, more: Sequence[str] = (), few: int = 0) -> Iterator[str]:
    """Where operations of a model run, one by one (`report`, and for up to `few`) or counted, and what deserves a
    look."""
    listed = model is not None and (report or len(model.report) <= few)
    if model is not None:
        yield from report_lines(model) if listed else where_lines(model.report)
    yield from look_lines(model, more, report, listed)


def port_lines(sides: Mapping[str, Sequence[PortText]], complete: bool) -> Iterator[str]:
    """Inputs, outputs and states in a table; unless all are asked for, the first few of each."""
    shown = None if complete else PORTS
    yield from table([(side, line_text(name, NAME), *rest) for side, ports in sides.items()
                      for name, *rest in ports[:shown]], indent="  ")
    more = [plural(len(ports) - PORTS, f"more {side}") for side, ports in sides.items() if len(ports) > PORTS]
    if more and not complete:
        yield f"  ... and {', '.join(more)} (--report lists them)"


def _ports(model: Model, conversions: bool) -> dict[str, list[PortText]]:
    """The ports of a model, with what the host converts where that is not listed elsewhere."""
    found = {entry.operation: entry.reason for entry in model.report if entry.where is Where.PORT and conversions}

    def text(port: Port) -> PortText:
        conversion = found.get(f"port {port.name!r}")
        return port.name, port.dtype, shape_text(port.shape), f"by the host: {conversion}" if conversion else ""

    return {"input": [text(port) for port in model.inputs], "output": [text(port) for port in model.outputs],
            "state": [text(state.port) for state in model.states]}


def cache_lines(from_cache: bool) -> list[str]:
    """That a model was compiled before, where it was."""
    return ["  from the cache: compiled before with the same options (--no-cache compiles it again)"][:from_cache]


def compiled_lines(model: Model, place: str, from_cache: bool, report: bool) -> Iterator[str]:
    """The summary of a compilation, or with `report` everything about it."""
    tasks = sum(len(program.tasks) for program in model.programs)
    size = sum(len(program.constants) for program in model.programs)
    programs = f" in {plural(len(model.programs), 'program')}" if len(model.programs) != 1 else ""
    yield (f"{place}: {plural(tasks, 'task')}{programs} for {target_text(model.target)}, {byte_text(size)} of "
           f"constants, {plural(len(model.host_operations), 'host operation')}")
    yield from cache_lines(from_cache)
    listed = report or len(model.report) <= FEW
    yield from port_lines(_ports(model, conversions=not listed), report)
    yield from said(model, report, few=FEW)


def target_text(target: str) -> str:
    """A generation and the chips it is in: `h13 (a14, m1)`; of a chip's larger versions none is named."""
    names = [chip.name for chip in chips_of(get_chip(target).name)]
    plain = [name for name in names if not any(name.startswith(f"{other} ") for other in names)]
    return f"{target} ({', '.join(plain)})" if plain else target
