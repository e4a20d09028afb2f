"""What is printed of a model fits a screen, and leaves nothing out of its counts."""

from __future__ import annotations

import argparse
from importlib import import_module

import pytest

from openane.cli import VERBS
from openane.cli.summary import MOST, SCREEN, at_most, counts, operation_lines
from openane.compiler import Entry, Where


def entries(layers: int) -> list[Entry]:
    """A network of so many layers, its last operations on the host, one operation in two programs."""
    found: list[Entry] = []
    for i in range(layers):
        found += [Entry(f"conv 'c{i}'", Where.ENGINE, "", (i,)),
                  Entry(f"relu 'r{i}'", Where.FUSED, "in the last stage"),
                  Entry(f"reshape 's{i}'", Where.FREE, "shape and strides only")]
    found += [Entry(f"gather 'g{i}'", Where.HOST, "the engine cannot look up by data") for i in range(layers)]
    return [*found, Entry("add 'twice'", Where.ENGINE, "", (90,), 0), Entry("add 'twice'", Where.ENGINE, "", (0,), 1),
            Entry("port 'x'", Where.PORT, "fp32 rounded to fp16")]


def test_every_operation_counts_once() -> None:
    found = counts(entries(40))
    assert {where: dict(kinds) for where, kinds in found.items()} == {
        Where.ENGINE: {"conv": 40, "add": 1}, Where.FUSED: {"relu": 40}, Where.FREE: {"reshape": 40},
        Where.HOST: {"gather": 40}, Where.PORT: {"port": 1}}
    assert sum(kinds.total() for kinds in found.values()) == len({e.operation for e in entries(40)})


def test_many_operations_are_counted_and_few_are_listed() -> None:
    large = list(operation_lines(entries(400), False, lambda entry: entry.reason))
    assert len(large) < 20
    assert large[0] == "  engine  400 conv, 1 add"
    assert "  host    gather 'g0': the engine cannot look up by data" in large
    assert f"  ... and {400 - MOST + 1} more: --report" in large
    assert large[-1] == "  --report lists every operation"
    few = entries(1)
    assert len(few) <= SCREEN
    assert len(list(operation_lines(few, False, lambda entry: entry.reason))) == len(few)
    assert len(list(operation_lines(entries(400), True, lambda entry: entry.reason))) == len(entries(400))


def test_what_is_left_out_is_said() -> None:
    lines = [str(i) for i in range(MOST + 1)]
    assert list(at_most(lines)) == [*lines[:MOST - 1], "  ... and 2 more: --report"]
    assert list(at_most(lines[:MOST])) == lines[:MOST]
    assert list(at_most(lines, every=True)) == lines


@pytest.mark.parametrize("verb", ["compile", "run", "profile", "explain"])
def test_commands_that_take_a_model_say_the_same_of_it(verb: str) -> None:
    assert verb in VERBS
    wanted = {"--target", "--shape", "--sample", "--allow-host", "--no-cache"}
    assert {option: text for option, text in helps(parser_of(verb)).items() if option in wanted} == \
        {option: text for option, text in helps(parser_of("run")).items() if option in wanted}
    assert wanted <= helps(parser_of(verb)).keys()


def parser_of(verb: str) -> argparse.ArgumentParser:
    """The parser of a verb."""
    parser = argparse.ArgumentParser()
    import_module(f"openane.cli.{verb}").arguments(parser)
    return parser


def helps(parser: argparse.ArgumentParser) -> dict[str, tuple[object, object, object]]:
    """Option to its help, metavar and default."""
    return {option: (action.help, action.metavar, action.default) for action in parser._actions
            for option in action.option_strings}
