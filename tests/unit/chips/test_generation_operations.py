"""Engine operations of the generations from H14 on: what tasks decode to, and records of Apple's compiler."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.needs import lacking
from support.records import record_words

from openane.chips import KNOWN, get_chip
from openane.chips.chip import TaskFields
from openane.chips.runs import VIRTUAL
from openane.engine import Access, Activation, Elementwise, PassThrough, Space, sources
from openane.errors import ProgramError
from openane.program import Task
from openane.program.listing import parse_task, read_lines, task_lines
from openane.registers import FieldError

LATER = [name for name in KNOWN if name != "h13"]
HEADER_WORDS = {"h14": 8, "h15": 8, "h16": 9, "h17": 9, "h18": 9}


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
        ("TileDMASrc.PlaneStride", {"Stride": 0x80}), ("TileDMASrc.Fmt", {"Interleave": 1}), RBase0=4)


@pytest.mark.parametrize("name", ["h14", "h15", "h16", "h17"])
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


def test_h18_states_memory_formats_in_a_way_that_is_refused_by_name() -> None:
    with pytest.raises(FieldError, match="Interleave"):
        _relu("h18")


def _records(corpus: Path, name: str) -> Iterator[tuple[str, list[tuple[int, ...]]]]:
    """Case and task words of the records of Apple's compiler for a generation, as published."""
    paths = sorted((corpus / f"apple/oracles_{name}").glob("*.json"))
    if not paths:
        lacking(f"apple/oracles_{name}", "it is not in the folder that OPENANE_CORPUS names")
    chip = get_chip(name)
    for path in paths:
        tasks = []
        for task in json.loads(path.read_text())["task_descriptors"]:
            registers = {int(a, 16): int(w, 16) for b in task["blocks"].values() for a, w in b["words"].items()}
            words = [int(w, 16) for w in task["header_words"]]
            for run in task["records"]:
                head = int(run["header"], 16)
                one = (*words[:HEADER_WORDS[name] - 1], 1, head, *(0,) * run["count"])
                words += [head, *(registers[a] for a in chip.addresses(chip.decode(one)))]
            tasks.append(tuple(words))
        yield path.stem, tasks


def _same(one: Any, other: Any) -> bool:
    """Whether two operations do the same, slots apart."""
    def plain(operation: Any) -> Any:
        places = {f: replace(a, slot=0) for f in ("source", "first", "second", "result")
                  if (a := getattr(operation, f, None)) is not None}
        coefficients = getattr(operation, "coefficients", None)
        return replace(operation, **places, **({"coefficients": replace(coefficients, slot=1)} if coefficients else {}))

    return bool(type(one) is type(other) and plain(one) == plain(other))


@pytest.mark.parametrize("name", LATER)
def test_records_of_apples_compiler_mean_what_h13s_do(corpus: Path, name: str) -> None:
    """Word for word through fields; where H13 has as many tasks for the same program, the same operations."""
    chip, h13 = get_chip(name), get_chip("h13")
    decoded = same = total = 0
    for case, tasks in _records(corpus, name):
        path = corpus / "apple/oracles" / f"{case}.json"
        earlier = json.loads(path.read_text())["tasks"] if path.exists() else []
        for index, words in enumerate(tasks):
            fields = chip.decode(words)
            assert chip.encode(fields) == words, case
            assert chip.task_size(words) == len(words), case
            head, *members = read_lines("\n".join(task_lines(chip, index, Task(words))))
            assert parse_task(chip, len(words), head.first, members) == words, case
            total += 1
            if name == "h18":
                continue
            try:
                operation = chip.operation(words)
            except ProgramError:
                assert not earlier, case
                continue
            decoded += 1
            assert sources(operation), case
            if len(earlier) == len(tasks):
                reference = h13.operation(record_words(earlier[index]))
                same += _same(operation, reference)
                assert _same(operation, reference), (case, index, operation, reference)
    assert decoded or name == "h18"
    print(f"{name}: {total} tasks, {decoded} operations, {same} equal to h13's")


def test_elementwise_is_what_a_planar_task_decodes_to() -> None:
    words = _task(
        "h14", ("Common.InDim", {"W": 4, "H": 1}), ("Common.OutDim", {"W": 4, "H": 1}), ("Common.Cin", {"C": 1}),
        ("Common.Cout", {"C": 1}), ("Common.Cfg", {"TaskType": "binary"}), ("PE.Cfg", {"OpMode": "max", "SecondEn": 1}))
    operation = get_chip("h14").operation(words)
    assert isinstance(operation, Elementwise)
    assert (operation.scale, operation.pre_scale, str(operation.function)) == (1.0, 1.0, "max")
