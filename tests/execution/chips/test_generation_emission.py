"""Recorded tasks of H14 to H18 are emitted again word for word, but for those that are listed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from records.reading import materialiser
from support.records import generation_words

from openane.chips import described_generations, get_chip
from openane.compiler import compile
from openane.importers.mil import load_mil

LATER = described_generations()[1:]
LISTED = Path(__file__).parents[2] / "other_generation_words.txt"
TASKS = {"h14": 45, "h15": 32, "h16": 34, "h17": 40, "h18": 27}


def listed(name: str) -> dict[tuple[str, int], str]:
    """Recorded tasks whose words are not emitted, and why."""
    lines = [line.split(maxsplit=3) for line in LISTED.read_text().splitlines() if not line.startswith("#")]
    return {(case, int(task)): why for generation, case, task, why in lines if generation == name}


def emitted(corpus: Path, name: str, scratch: Path) -> Iterator[tuple[str, int, tuple[int, ...], tuple[int, ...]]]:
    """Case, task, recorded words and the words emitted for the same operations, with tables of the kinds that the
    compiler makes for the record's MIL."""
    chip, materialise = get_chip(name), materialiser(corpus / "apple/oracles")
    for path in sorted((corpus / f"apple/oracles_{name}").glob("*.json")):
        materialise(str(path), str(scratch / path.stem))
        program = compile(load_mil(scratch / path.stem / "model.mil"), target=name).program
        contents = {slot: program.constants_of(slot) for slot in program.constant_ranges}
        words = generation_words(json.loads(path.read_text()), name)
        tasks = chip.emit([chip.operation(each) for each in words], contents=contents)
        for number, (task, recorded) in enumerate(zip(tasks, words, strict=True)):
            yield path.stem, number, recorded, task.words


@pytest.mark.parametrize("name", LATER)
def test_recorded_tasks_are_emitted_word_for_word(corpus: Path, tmp_path: Path, name: str) -> None:
    tasks = list(emitted(corpus, name, tmp_path))
    assert len(tasks) == TASKS[name]
    others = {(case, number) for case, number, recorded, words in tasks if words != recorded}
    assert others == set(listed(name))
