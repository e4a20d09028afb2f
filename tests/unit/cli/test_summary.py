"""The summary of a model: counts by kind, how long it gets, and what it never leaves out."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

import openane as ane
from openane.cli.summary import MOST_KINDS, compiled_lines, counted, look_lines, port_lines, target_text, where_lines
from openane.compiler import Entry, Where
from openane.compiler.records import Concern
from openane.graph import Graph
from openane.ops.build import GraphBuilder

ENTRIES = (
    Entry("batch_norm 'b' (from ONNX BatchNormalization 'n1')", Where.FOLDED, "computed or merged"),
    Entry("conv 'c0' (from ONNX Conv 'n0')", Where.ENGINE, "", (0, 1)),
    Entry("relu 'r0'", Where.FUSED, "in the last stage of conv 'c0' (from ONNX Conv 'n0')"),
    Entry("conv 'c1'", Where.ENGINE, "", (2,)),
    Entry("conv 'c1'", Where.ENGINE, "", (0,), 1),
    Entry("relu 'r1'", Where.FUSED, "in the last stage of add 'a'"),
    Entry("reshape", Where.FREE, "shape and strides only"),
    Entry("reshape", Where.FREE, "shape and strides only"),
    Entry("gather 'g'", Where.HOST, "Indices must be constants"),
    Entry("result ports", Where.ENGINE, "copies to output buffers", (3,)),
    Entry("port 'x'", Where.PORT, "fp32 rounded to fp16"),
)


def graph(name: str = "y") -> Graph:
    b = GraphBuilder()
    return b.finish({name: b.single("relu", x=b.input("x", "fp32", (4, 64)), name=name)})


def test_operations_are_counted_by_kind_where_they_are() -> None:
    assert counted(ENTRIES) == {
        Where.ENGINE: Counter(conv=2), Where.FUSED: Counter({"relu after conv": 1, "relu after add": 1}),
        Where.FREE: Counter(reshape=2), Where.FOLDED: Counter(batch_norm=1), Where.HOST: Counter(gather=1)}
    assert counted(()) == {where: Counter() for where in counted(ENTRIES)}


@given(st.lists(st.tuples(st.sampled_from(["conv", "add", "relu"]), st.sampled_from(sorted(set(Where) - {Where.PORT})),
                          st.lists(st.integers(0, 3), min_size=1, max_size=3, unique=True)), max_size=20))
def test_every_operation_is_counted_once(drawn: list[tuple[str, Where, list[int]]]) -> None:
    entries = [Entry(f"{kind} 'v{number}'", where, program=program)
               for number, (kind, where, programs) in enumerate(drawn) for program in programs]
    found = counted(entries)
    assert sum(sum(kinds.values()) for kinds in found.values()) == len(drawn)
    assert {where: kinds.total() for where, kinds in found.items() if kinds} == Counter(where for _, where, _ in drawn)


def test_the_lines_say_places_counts_and_kinds() -> None:
    assert where_lines(ENTRIES) == [
        "8 operations:",
        "  engine  2  tasks of their own                2 conv, copies to output buffers",
        "  fused   2  in the task of another operation  1 relu after add, 1 relu after conv",
        "  free    2  layout only: nothing to execute   2 reshape",
        "  folded  1  computed or merged beforehand     1 batch_norm",
        "  host    1  computed by the host              1 gather"]


def test_the_host_is_named_even_where_it_does_nothing() -> None:
    assert any(line.split()[:2] == ["host", "0"] for line in where_lines(ENTRIES[:4]))


def test_many_kinds_become_few_lines_and_none_is_lost() -> None:
    entries = [Entry(f"kind{kind} 'v{kind}_{number}'", Where.ENGINE) for kind in range(40)
               for number in range(40 - kind)]
    lines = where_lines(entries)
    assert len(lines) <= 6
    assert max(map(len, lines)) <= 120
    words = " ".join(lines[1:-1]).partition("tasks of their own")[2]
    counts = [int(item.split()[0]) for item in words.split(",")]
    assert len(counts) == MOST_KINDS + 1
    assert sum(counts) == len(entries)
    assert words.endswith(f"of {40 - MOST_KINDS} other kinds")


def test_whatever_there_is_to_say_fits_a_screen() -> None:
    model = ane.compile(graph())
    hosts = tuple(Entry(f"gather 'g{n}'", Where.HOST, "Indices must be constants") for n in range(100))
    concerns = tuple(Concern(f"conv 'c{n}'", "sums become infinite", 1e5, 32768, "scale") for n in range(100))
    ports = tuple(replace(model.inputs[0], name=f"x{n}") for n in range(100))
    large = replace(model, report=ENTRIES + hosts, concerns=concerns, inputs=ports, outputs=ports)
    short = list(compiled_lines(large, "model.ane", True, False))
    assert len(short) <= 30
    assert "  ... and 97 more inputs, 97 more outputs (--report lists them)" in short
    assert short.count("  ... and 97 more (--report lists them)") == 1  # of 101 host operations
    assert short.count("  ... and 96 more (--report lists them)") == 1
    whole = "\n".join(compiled_lines(large, "model.ane", False, True))
    for name in (*(f"gather 'g{n}'" for n in range(100)), *(f"x{n} " for n in range(100)),
                 *(f"warning: conv 'c{n}'" for n in range(100))):
        assert name in whole
    assert "--report" not in whole


def test_nothing_to_look_at_is_no_heading() -> None:
    assert look_lines(ane.compile(graph())) == look_lines(None) == []
    assert look_lines(None, ["task 3: infinite"]) == ["what to look at:", "  task 3: infinite"]


def test_names_that_would_break_a_line_are_spelled_out() -> None:
    [line] = port_lines({"input": [("a\nb" + "x" * 100, "fp16", "4", "")]}, complete=True)
    assert line.startswith(r"  input  a\nbx")
    assert len(line) < 80


@pytest.mark.parametrize(("target", "text"), [("h13", "h13 (a14, m1)"), ("h16", "h16 (a17 pro, m4)")])
def test_a_generation_is_said_with_its_chips(target: str, text: str) -> None:
    assert target_text(target) == text


def test_conversions_stand_with_their_ports() -> None:
    model = ane.compile(graph("it's"))
    lines = "\n".join(compiled_lines(replace(model, report=model.report + ENTRIES * 2), "m.ane", False, False))
    assert "input   x     fp32  4x64  by the host: fp32 rounded to fp16" in lines
    assert "output  it's  fp32  4x64  by the host: fp16 widened to fp32" in lines


def test_a_small_model_is_listed() -> None:
    lines = list(compiled_lines(ane.compile(graph()), "m.ane", False, False))
    assert lines[1:] == ["  input   x  fp32  4x64", "  output  y  fp32  4x64", "  engine  relu 'y'  task 0",
                         "  port    'x'       fp32 rounded to fp16", "  port    'y'       fp16 widened to fp32"]
