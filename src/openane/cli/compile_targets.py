"""One model for several targets: compiled for each, reported side by side, and written into one bundle."""

from __future__ import annotations

import sys
import textwrap
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from openane.chips import generations, get_chip
from openane.chips.machines import chips_of, find
from openane.chips.machines import target as generation_of
from openane.cli.output import say, say_json, table
from openane.cli.profile import subject_of
from openane.cli.progress import progress
from openane.cli.summary import look_lines
from openane.compiler import Where
from openane.errors import AneError, UnsupportedError
from openane.formats.files import write_atomically
from openane.record_classes import dataclass
from openane.report import profile
from openane.report.document import MICRO
from openane.report.targets import (
    PlacedOperation,
    TargetResult,
    compiled,
    operation_rows,
    targets_document,
)
from openane.wording import byte_text, line_text, plural

if TYPE_CHECKING:
    from openane.compiler import Model
    from openane.report.profile import Profile

FAILED = 1
TERMINAL = 100
"""Columns of a terminal that the tables keep to, where names allow it."""
SHOWN = 12
"""Operations that differ in a report that is not complete."""
HEADING = ("target", "", "tasks", "program", "constants", "scratch", "host", "engine us", "total us", "times are")
LEGEND = ("program: the words of its tasks; scratch: intermediate results in memory; host: operations that the",
          "host computes; engine, total: one inference, without and with the call through macOS, on the first",
          "chip named")

Compile = Callable[[str], tuple["Model", bool]]
"""Compiles for one target; the model, and whether the cache had it."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """A target as it was asked for, and the model that was compiled for it, or why there is none."""

    name: str
    model: Model | None = None
    from_cache: bool = False
    refusal: str = ""


def require_several(options: Namespace, output: Path) -> None:
    """UnsupportedError for what a command with several targets cannot do."""
    if output.suffix in (".hwx", ".anec"):
        raise UnsupportedError(f"-o {output}", f"a {output.suffix} file holds the program of one target", limit=1,
                               found=f"--target {','.join(options.targets)}",
                               remedy=f"-o {output.stem}.ane writes one bundle for all of them; or compile for one "
                                      f"after the other, --target {options.targets[0]} first")
    if options.compiler != "openane":
        raise UnsupportedError("--compiler", "another compiler compiles for one target at a time",
                               found=f"--target {','.join(options.targets)}", remedy="name one target")


def require_one(options: Namespace) -> None:
    """UnsupportedError for what a command with one target cannot do."""
    if options.page is not None:
        raise UnsupportedError("--page", "the page shows several targets side by side", found=1,
                               remedy="name more: --target all; of one target: ane profile MODEL --html R.html")


def run_several(options: Namespace, output: Path, compile_one: Compile) -> int:
    """Compiles for every target of `options.targets`, writes the bundle and the page, and reports."""
    attempts = list(attempted(options.targets, compile_one))
    results = [result for attempt in attempts for result in results_of(attempt)]
    models = {each.model.target: each.model for each in attempts if each.model is not None}
    if models:
        first, *others = models.values()
        first.with_targets(others).save(output)
    if options.page is not None:
        from openane.report import html

        write_atomically(options.page, html.targets_page(options.model.name, results).encode())
    if options.json:
        say_json({"model": str(options.model), "file": str(output) if models else None,
                       "compiled": list(models), **targets_document(results)})
    else:
        say("\n".join(lines(results, list(models.values()), options, output)))
    if not models:
        say(f"ane: error: none of {plural(len(attempts), 'target')} takes {options.model}: nothing was written",
              file=sys.stderr)
    return 0 if models else FAILED


def attempted(names: Sequence[str], compile_one: Compile) -> Iterator[Attempt]:
    """Every target in turn; one of a generation that was compiled for already takes that model. Progress is shown."""
    known: dict[str, Attempt] = {}
    for name in progress(names, len(names), "compiling"):
        generation = generation_of(name).name
        if generation not in known:
            try:
                model, from_cache = compile_one(generation)
                known[generation] = Attempt(name, model, from_cache)
            except AneError as error:
                known[generation] = Attempt(name, refusal=str(error))
        yield replace(known[generation], name=name)


def results_of(attempt: Attempt) -> Iterator[TargetResult]:
    """What is reported of a target: a result for every function of the model."""
    generation = generation_of(attempt.name).name
    chips = tuple(chip.name for chip in chips_of(generation))
    if attempt.model is None:
        yield TargetResult(attempt.name, generation, chips, refusal=attempt.refusal)
        return
    several = len(attempt.model.functions) > 1
    for name, function in attempt.model.functions.items():
        yield TargetResult(attempt.name, generation, chips, modelled(function, attempt.name), placed(function),
                           function=name if several else "", from_cache=attempt.from_cache)


def modelled(model: Model, name: str) -> Profile:
    """The profile on the chip a target names, or on the usual one of its generation; on the first of the chips of
    different speed that a machine was made with."""
    subject = subject_of(model)
    if name in generations():
        return profile(subject, get_chip(name).facts.chip)
    try:
        return profile(subject, name)
    except UnsupportedError:
        return profile(subject, find(name).chips[0].name)


def placed(model: Model) -> tuple[PlacedOperation, ...]:
    """Every operation of a model, and the copies to its outputs; one that several programs have tasks of, once."""
    found: dict[str, PlacedOperation] = {}
    for entry in model.report:
        if entry.where is not Where.PORT:
            known = found.get(entry.operation)
            each = PlacedOperation(entry.operation, str(entry.where), len(entry.tasks), entry.reason)
            found[entry.operation] = each if known is None else replace(known, tasks=known.tasks + each.tasks)
    return tuple(found.values())


def lines(results: Sequence[TargetResult], models: Sequence[Model], options: Namespace, output: Path) -> Iterator[str]:
    """The report for people."""
    made = dict.fromkeys(result.generation for result in compiled(results))
    asked = dict.fromkeys(result.generation for result in results)
    place = f"{output}: compiled for {', '.join(made)}" if made else f"{options.model}: nothing compiled"
    yield f"{place}, {len(made)} of {plural(len(asked), 'generation')}"
    known = dict.fromkeys(result.generation for result in results if result.from_cache)
    if known:
        yield f"  from the cache: {', '.join(known)} (--no-cache compiles again)"
    yield from table(_right([list(HEADING), *map(_cells, results)], 2, len(HEADING) - 1))
    if made:
        yield from LEGEND
    yield from sorted({f"times of {result.label} are {result.profile.without}" for result in compiled(results)
                       if result.profile is not None and result.profile.without})
    yield from _refusals(results)
    yield from _operation_lines(results, options.report)
    yield from look_lines(None, list(_concerns(models)), options.report)


def _cells(result: TargetResult) -> list[str]:
    profile, name = result.profile, [result.generation, _chip_text(result)]
    if profile is None:
        return [*name, *(["-"] * (len(HEADING) - 3)), "refused"]
    return [*name, str(len(profile.rows)), *map(byte_text, result.memory.values()), str(len(profile.subject.host)),
            _us(profile.engine_seconds), _us(profile.seconds), str(profile.time_kind)]


def _right(rows: Sequence[Sequence[str]], begin: int, end: int) -> list[list[str]]:
    """The rows with the columns from `begin` to before `end` set to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [[cell.rjust(width) if begin <= at < end else cell for at, (cell, width) in
             enumerate(zip(row, widths, strict=True))] for row in rows]


def _us(seconds: float) -> str:
    """Microseconds to a tenth, or three figures."""
    value = seconds * MICRO
    return f"{value:.1f}" if value >= 10 or not value else f"{value:.3g}"


def _chip_text(result: TargetResult) -> str:
    """What a target was asked for by; of a generation its chips, the one that is timed first, without the larger
    versions of one that is there."""
    if result.name != result.generation:
        return result.label
    timed = get_chip(result.generation).facts.chip
    plain = [name for name in result.chips if not any(name.startswith(f"{other} ") for other in result.chips)]
    return f"{', '.join(sorted(plain, key=lambda name: name != timed))} {result.function}".strip()


def _refusals(results: Sequence[TargetResult]) -> Iterator[str]:
    """Why targets refuse the model, each reason once."""
    found: dict[str, list[str]] = {}
    for result in results:
        if result.refusal:
            found.setdefault(result.refusal, []).append(result.name)
    for reason, names in found.items():
        for line in f"refused for {', '.join(names)}: {reason}".splitlines():
            yield from textwrap.wrap(line, TERMINAL, subsequent_indent="  ")


def _operation_lines(results: Sequence[TargetResult], complete: bool) -> Iterator[str]:
    """The operations that targets have in different places or numbers of tasks."""
    columns = [result.label for result in compiled(results)]
    if len(columns) < 2:
        return
    rows = operation_rows(results)
    differing = [row for row in rows if row.differs]
    if not differing:
        yield f"{plural(len(rows), 'operation')}: every one runs in the same place, in as many tasks, for all of them"
        return
    yield f"operations that differ in where they run, or in tasks: {len(differing)} of {len(rows)}"
    shown = differing if complete else differing[:SHOWN]
    room = max(24, TERMINAL - 2 - sum(2 + max(len(name), 6) for name in columns))
    cells = [[line_text(row.operation.partition(" (from ")[0], room), *map(str, row.places)] for row in shown]
    yield from table(_right([["operation", *columns], *cells], 1, 1 + len(columns)), indent="  ")
    if len(shown) < len(differing):
        yield f"  ... and {len(differing) - len(shown)} more (--report lists them)"


def _concerns(models: Sequence[Model]) -> Iterator[str]:
    """What deserves a look, each once, with the targets it is true of where that is not all."""
    found: dict[str, list[str]] = {}
    for model in models:
        for text in (*(f"host: {line_text(entry.operation)}: {entry.reason}" for entry in model.host_operations),
                     *(f"warning: {concern}" for concern in model.concerns)):
            found.setdefault(text, []).append(model.target)
    for text, targets in found.items():
        yield text if len(targets) == len(models) else f"{', '.join(targets)}: {text}"
