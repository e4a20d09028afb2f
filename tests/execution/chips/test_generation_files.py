"""HWX files of H14 to H18 against records of Apple's compiler: every word of the program descriptor, every address."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from records.descriptors import command_words, stated_words
from support.recorded_programs import recorded_program

from openane.chips import described_generations, get_chip
from openane.formats import read_hwx, write_hwx
from openane.formats.hwx import MAGIC
from openane.formats.hwx.descriptors import TENSOR, TensorDescriptor
from openane.formats.hwx.wide import TextHead
from openane.formats.listing import assemble, disassemble_bytes
from openane.formats.macho import Thread, read_macho, section_data
from openane.program import Program

LATER = described_generations()[1:]
RECORDS = {"h14": 29, "h15": 24, "h16": 26, "h17": 30, "h18": 21}
SCRATCH = 0x858
OTHER_SCRATCH = {"h14": {"layer_norm_1x64x8x8"}}
"""Programs without scratch memory whose descriptors state some: the bytes of their input."""


def records(corpus: Path, name: str) -> dict[str, Any]:
    paths = sorted((corpus / f"apple/oracles_{name}").glob("*.json"))
    return {path.stem: json.loads(path.read_text()) for path in paths}


def program_of(record: dict[str, Any], name: str) -> Program:
    """A record's program; sections that hold anything are filled with ones, for what Apple's hold is not recorded."""
    kernels = record.get("kernel_section") or []
    constant = record["constant_section"]
    held = b"\1" * constant["size"] if constant["nonzero_bytes"] else b""
    return recorded_program(record, name, held, b"".join(b"\1" * each["size"] for each in kernels))


@pytest.mark.parametrize("name", LATER)
def test_descriptors_and_addresses_are_those_of_apples_compiler(corpus: Path, name: str) -> None:
    cases, other = records(corpus, name), {}
    assert len(cases) == RECORDS[name]
    for case, record in cases.items():
        program = program_of(record, name)
        written = write_hwx(program)
        file = read_macho(written, MAGIC)
        words, wanted = command_words(file), stated_words(record, command_words(file))
        other |= {(case, place): word for place, word in wanted.items() if words.get(place) != word}
        said = record["program_descriptor"]
        assert words[4] == said["command_size"], case
        text, constants = next(s for s in file.segments if s.name == "__TEXT").sections
        assert (text.address, constants.address) == (int(said["text_address"], 16), int(said["constant_address"], 16))
        assert (text.size, constants.size) == (4 * said["text_words"], record["constant_section"]["size"]), case
        assert read_hwx(written) == program, case
    assert {case for case, place in other if place != SCRATCH} == set()
    assert {case for case, _ in other} == OTHER_SCRATCH.get(name, set())


@pytest.mark.parametrize("name", LATER)
def test_sections_and_surfaces_are_those_of_apples_compiler(corpus: Path, name: str) -> None:
    chip = get_chip(name)
    for case, record in records(corpus, name).items():
        program = program_of(record, name)
        file = read_macho(write_hwx(program), MAGIC)
        assert file.header.cpusubtype == chip.facts.subtype
        segments = {s.name: s for s in file.segments}
        text = segments["__TEXT"]
        assert section_data(text, text.sections[0]).record(TextHead, 0, "the head") == TextHead()
        if record["constant_section"]["nonzero_bytes"] == 0:
            assert not any(text.data[len(program.text()):]), case
        kernels = record.get("kernel_section") or []
        assert [s for s in segments if s.startswith("__KERN_")] == [f"__KERN_{i}" for i in range(len(kernels))]
        for number, each in enumerate(kernels):
            segment = segments[f"__KERN_{number}"]
            (section,) = segment.sections
            assert (section.name, section.size) == (f"__kern_{number}", each["size"])
            assert section.address == segment.vmaddr == text.vmaddr + text.vmsize
        tensors = [c.reader().record(TensorDescriptor, 0, "a tensor") for c in file.commands
                   if isinstance(c, Thread) and c.flavor == TENSOR]
        found = [{"binding": t.binding, "shape": [t.n, t.c, t.h, t.w], "total_bytes": t.total,
                  "strides": [t.batch_stride, t.plane_stride, t.row_stride, t.element_size],
                  "element_code": t.element_type} for t in tensors]
        assert sorted(map(repr, found)) == sorted(repr({key: each[key] for key in found[0]})
                                                  for each in record["tensor_descriptors"]), case


@pytest.mark.parametrize("name", LATER)
def test_their_listings_assemble_to_the_files(corpus: Path, name: str) -> None:
    for case, record in list(records(corpus, name).items())[::4]:
        program = program_of(record, name)
        written = write_hwx(program)
        listing = disassemble_bytes(written)
        assert assemble(listing.text, lambda _, listing=listing: listing.sidecar) == written, case
        assert listing.undescribed == 0, case
        assert ("kernels+" in listing.text) == bool(program.kernel_starts), case
