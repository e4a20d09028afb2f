"""A generation is one folder: H13 under other addresses, slots, header and alignments is all another chip needs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane import chips
from openane.chips import Chip, get_chip
from openane.compiler import Model
from openane.formats import load_program
from openane.formats.listing.asm import assemble
from openane.formats.listing.dis import disassemble_bytes
from openane.program.verify import verify

FOLDER = Path(__file__).parents[2] / "support" / "toy_generation"
DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Iterator[Chip]:
    """The generation, known as long as the test runs."""
    monkeypatch.setattr(chips, "__path__", [*chips.__path__, str(FOLDER)])
    yield get_chip("h40")
    for name in [name for name in sys.modules if name.startswith("openane.chips.h40")]:
        del sys.modules[name]


@pytest.fixture
def model(toy: Chip) -> Model:
    return ane.compile(ane.load_graph(DIGITS), target="H40")


def test_the_digits_network_computes_the_same(toy: Chip, model: Model) -> None:
    reference = ane.compile(ane.load_graph(DIGITS))
    assert model.target == "h40"
    assert len(model.program.tasks) == len(reference.program.tasks)
    assert {buffer.slot for buffer in model.program.buffers} == {toy.limits.slots.first_port, 12}
    rng = np.random.default_rng(0)
    for _ in range(8):
        inputs = {port.name: rng.uniform(0, 1, port.shape).astype(np.float16) for port in model.inputs}
        found, wanted = ane.run(model, inputs), ane.run(reference, inputs)
        for name, expected in wanted.items():
            np.testing.assert_array_equal(found[name], expected)


def test_its_program_verifies_and_comes_back_from_words_files_and_text(toy: Chip, model: Model,
                                                                       tmp_path: Path) -> None:
    program = model.program
    verify(program)
    for task in program.tasks:
        assert toy.encode(toy.decode(task.words)) == task.words
        assert toy.operation(task.words)
    model.save(tmp_path / "digits.hwx")
    assert load_program(tmp_path / "digits.hwx") == program
    data = (tmp_path / "digits.hwx").read_bytes()
    listing = disassemble_bytes(data)
    assert assemble(listing.text, lambda name: listing.sidecar or b"") == data
    model.save(tmp_path / "digits.ane")
    assert Model.load(tmp_path / "digits.ane").program == program


def test_addresses_are_aligned_as_it_says(toy: Chip, model: Model) -> None:
    h13 = get_chip("h13")
    for task in model.program.tasks:
        with pytest.raises(ane.AneError):
            h13.operation(task.words)
        assert task.offset % toy.limits.task_alignment == 0
    for buffer in model.program.buffers:
        assert buffer.layout is not None
        assert buffer.layout.strides[3] % toy.limits.memory_alignment == 0
