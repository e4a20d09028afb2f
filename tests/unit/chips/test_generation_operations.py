"""Engine operations of the generations from H14 on: what tasks decode to, and records of Apple's compiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.needs import lacking
from support.records import generation_words, record_words

from openane.chips import described_generations, get_chip
from openane.chips.chip import TaskFields
from openane.chips.runs import VIRTUAL
from openane.engine import Access, Activation, Elementwise, PassThrough, Space, sources
from openane.errors import ProgramError
from openane.program import Task
from openane.program.listing import parse_task, read_lines, task_lines

LATER = [name for name in described_generations() if name != "h13"]
COMPOSED_OTHERWISE = {"h18": ("binary_pow_1x64x1x1",)}
"""Cases with as many tasks as an earlier generation has, but others."""


def _task(chip_name: str, *runs: tuple[str, dict[str, Any]], **slots: int) -> tuple[int, ...]:
    """A task that writes only the registers named, each in a run of its own."""
    chip = get_chip(chip_name)
    values: dict[str, Any] = {"Header.Control.TSR": 1}
    records = []
    for register, fields in runs:
        records.append((chip.bank.by_name[register][0], 1))
        values |= {f"{register}.{field}": value for field, value in fields.items()}
    for slot, number in slots.items():
        pointer = chip.bank.by_name[f"Slots.{slot}"][0] - VIRTUAL
        records.append((pointer, 2))
        values |= {f"Slots.{slot}.Slot": number, f"Slots.{slot}.Relative": 1}
    return chip.encode(TaskFields(values, {}, tuple(records)))


def _relu(chip_name: str) -> tuple[int, ...]:
    late = chip_name not in ("h14", "h15")
    extents = ([(f"Common.{side}{axis}", {axis[0]: n}) for side in ("In", "Out") for axis, n in (("Width", 16),
                                                                                              ("Height", 2))]
               if late else [(f"Common.{side}Dim", {"W": 16, "H": 2}) for side in ("In", "Out")])
    return _task(
        chip_name, *extents, ("Common.Cin", {"C": 3}), ("Common.Cout", {"C": 3}), ("Common.TaskInfo", {"NEEn": 1}),
        ("Common.UnicastCfg" if late else "Common.GroupConvCfg",
         {"UnicastEn": 1, "UnicastCin": 1} | ({} if late else {"NumGroups": 1})),
        ("L2.SourceCfg", {"SourceType": "stream"}), ("L2.ResultCfg", {"ResultType": "resident"}),
        ("L2.ResultChannelStride", {"Stride": 0x20}), ("L2.ResultRowStride", {"Stride": 0x60}),
        ("NE.MACCfg", {"OpMode": "pass_through", "NoKernel": 1, "NonlinearMode": "relu"}),
        ("NE.PostScale", {"PostScale": 1.0}), ("TileDMASrc.RowStride", {"Stride": 0x40}),
        ("TileDMASrc.PlaneStride", {"Stride": 0x80}),
        ("TileDMASrc.Fmt", {"Format": "fp16"} if chip_name == "h18" else {"Interleave": 1}), RBase0=4)


@pytest.mark.parametrize("name", LATER)
def test_a_task_that_writes_only_what_matters_is_decoded(name: str) -> None:
    shape = (1, 3, 1, 2, 16)
    chip = get_chip(name)
    operation = chip.operation(_relu(name))
    assert isinstance(operation, PassThrough)
    assert operation.post.activation is Activation.RELU
    assert operation.source == Access(slot=4, shape=shape, strides=(0, 0x80, 0, 0x40, 2))
    assert operation.result == Access(space=Space.L2, shape=shape, strides=(0, 0x20, 0, 0x60, 2))
    assert chip.slots(_relu(name)).reads == {4}


def test_modes_known_by_inference_only_are_refused_by_name() -> None:
    chip = get_chip("h16")
    fields = chip.decode(_relu("h16"))
    changed = replace(fields, values={**fields.values, "Common.Cfg.ReluType": 2},
                      records=(*fields.records, (chip.bank.by_name["Common.Cfg"][0], 1)))
    with pytest.raises(ProgramError, match=r"Common\.Cfg\.ReluType.*h16"):
        chip.operation(chip.encode(changed))


def test_the_one_memory_format_of_h18_that_is_known_is_fp16() -> None:
    chip = get_chip("h18")
    fields = chip.decode(_relu("h18"))
    assert fields.values["TileDMASrc.Fmt.Format"] == "fp16"
    values = {name: value for name, value in fields.values.items() if name != "TileDMASrc.Fmt.Format"}
    for other in (0x3212, 0x3221, 0):
        with pytest.raises(ProgramError, match=r"TileDMASrc\.Fmt"):
            chip.operation(chip.encode(replace(fields, values=values, rest={"TileDMASrc.Fmt": other})))


@pytest.mark.parametrize("name", ["h15", "h16", "h17", "h18"])
def test_conditions_of_the_planar_engine_other_than_the_absolute_value_are_refused(name: str) -> None:
    chip = get_chip(name)
    extents = {f"Common.{place}": {"C": 1} for place in ("Cin", "Cout")} | (
        {f"Common.{side}Dim": {"W": 4, "H": 1} for side in ("In", "Out")} if name == "h15" else
        {f"Common.{side}{axis}": {axis[0]: 1} for side in ("In", "Out") for axis in ("Width", "Height")})
    for condition in ("absolute", "less"):
        words = _task(name, *extents.items(), ("Common.Cfg", {"TaskType": "unary"}),
                      ("PE.Cfg", {"Condition": condition}))
        if condition == "absolute":
            operation = chip.operation(words)
            assert isinstance(operation, Elementwise)
            assert operation.absolute
            continue
        with pytest.raises(ProgramError, match=r"PE\.Cfg\.Condition"):
            chip.operation(words)


def _records(corpus: Path, name: str) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Case and task words of the records of Apple's compiler for a generation, as published."""
    paths = sorted((corpus / f"apple/oracles_{name}").glob("*.json"))
    if not paths:
        lacking(f"apple/oracles_{name}", "it is not in the folder that OPENANE_CORPUS names")
    for path in paths:
        yield path.stem, generation_words(json.loads(path.read_text()), name)


def _operations(corpus: Path, name: str) -> dict[str, list[Any]]:
    """Case to the operations of its tasks."""
    chip = get_chip(name)
    if name == "h13":
        return {path.stem: [chip.operation(record_words(task)) for task in json.loads(path.read_text())["tasks"]]
                for path in sorted((corpus / "apple/oracles").glob("*.json"))}
    return {case: [chip.operation(words) for words in tasks] for case, tasks in _records(corpus, name)}


def _same(one: Any, other: Any) -> bool:
    """Whether two operations do the same, slots apart."""
    def plain(operation: Any) -> Any:
        places = {f: replace(a, slot=0) for f in ("source", "first", "second", "result")
                  if (a := getattr(operation, f, None)) is not None}
        coefficients = getattr(operation, "coefficients", None)
        if coefficients:
            places["coefficients"] = coefficients.relocated(lambda section: replace(section, slot=1))
        return replace(operation, **places)

    return bool(type(one) is type(other) and plain(one) == plain(other))


@pytest.mark.parametrize("name", LATER)
def test_every_task_of_every_record_is_an_operation_and_keeps_its_words(corpus: Path, name: str) -> None:
    chip = get_chip(name)
    for case, tasks in _records(corpus, name):
        for index, words in enumerate(tasks):
            fields = chip.decode(words)
            assert chip.encode(fields) == words, case
            assert chip.task_size(words) == len(words), case
            head, *members = read_lines("\n".join(task_lines(chip, index, Task(words))))
            assert parse_task(chip, len(words), head.first, members) == words, case
            operation = chip.operation(words)
            assert sources(operation), case
            slots = chip.slots(words)
            named = {a.slot for a in (*sources(operation), operation.result) if a.space is Space.MEMORY}
            assert named == slots.reads | slots.writes, case
            coefficients = getattr(operation, "coefficients", None)
            assert slots.coefficients == set(coefficients.slots if coefficients else ()), case


@pytest.mark.parametrize("name", LATER)
def test_registers_at_the_defaults_of_the_tables_are_left_out(corpus: Path, name: str) -> None:
    """So what a task does not write holds what the tables say: no record writes a register's default, but for addresses
    and what every task writes."""
    chip = get_chip(name)
    addresses = {a + 4 * i for a in chip.bank.by_address if a >= VIRTUAL for i in range(2)}
    always = {"Common.TaskInfo", "CacheDMA.DataSet"}
    written = set()
    for case, tasks in _records(corpus, name):
        for words in tasks:
            fields = chip.decode(words)
            for address in chip.addresses(fields):
                register_name, register = chip.bank.by_address[address]
                held = {f: fields.values.get(f"{register_name}.{f.name}") for f in register.fields}
                default = all(value == (f.default if f.default is not None else f.decode(0))
                              for f, value in held.items()) and register_name not in fields.rest
                if register_name in always or address + VIRTUAL in addresses:
                    continue
                written.add(register_name)
                assert not default, (case, register_name)
    assert len(written) > 70


@pytest.mark.parametrize("name", LATER)
def test_records_of_one_case_mean_the_same_for_every_generation(corpus: Path, name: str) -> None:
    """Where an earlier generation has as many tasks for the same program: the same operations, slots apart."""
    found, compared = _operations(corpus, name), 0
    for other in described_generations()[:described_generations().index(name)]:
        for case, earlier in _operations(corpus, other).items():
            if case in COMPOSED_OTHERWISE.get(name, ()) or len(found.get(case, ())) != len(earlier):
                continue
            for index, (ours, theirs) in enumerate(zip(found[case], earlier, strict=True)):
                compared += 1
                assert _same(ours, theirs), (case, index, ours, theirs)
    assert compared >= 27


def test_elementwise_is_what_a_planar_task_decodes_to() -> None:
    words = _task(
        "h14", ("Common.InDim", {"W": 4, "H": 1}), ("Common.OutDim", {"W": 4, "H": 1}), ("Common.Cin", {"C": 1}),
        ("Common.Cout", {"C": 1}), ("Common.Cfg", {"TaskType": "binary"}), ("PE.Cfg", {"OpMode": "max", "SecondEn": 1}))
    operation = get_chip("h14").operation(words)
    assert isinstance(operation, Elementwise)
    assert (operation.scale, operation.pre_scale, str(operation.function)) == (1.0, 1.0, "max")
