"""Mutated texts assemble or are refused by a typed error; $OPENANE_FUZZ sets how many there are (default 2000)."""

from __future__ import annotations

import os
import random
import struct
import time
from collections import Counter

from openane.compiler import compile
from openane.errors import AneError
from openane.formats import write_anec, write_hwx
from openane.formats.hwx.wide import WIDE_PROGRAM
from openane.formats.listing import assemble, disassemble_bytes
from openane.formats.listing.claims import Claims
from openane.formats.macho.commands import THREAD
from openane.ops.build import GraphBuilder
from openane.program import Program

MUTANTS = int(os.environ.get("OPENANE_FUZZ", "2000"))
SLOWEST = 2.0  # seconds for one mutant

SPLICES = ("0xffffffffffffffff", "99999999999999999999", "-1", '"', "\\", ";", "  ", "x99", "[0..9999]", "nan", "inf",
           "task 0 at 0x0, 126 words", "\t", "\x85", "unset", "rest", "words", "\ud800", "9" * 5000, "bytes 0x0",
           "file 4294967296")


def mutated(text: str, draw: random.Random) -> str:
    lines = text.split("\n")
    for _ in range(draw.choice((1, 1, 2, 5))):
        place, how = draw.randrange(len(lines)), draw.randrange(7)
        line = lines[place]
        at = draw.randrange(len(line) + 1)
        if how == 0:
            del lines[place]
        elif how == 1:
            lines.insert(draw.randrange(len(lines)), line)
        elif how == 2:
            lines[place] = line[:at] + draw.choice(SPLICES) + line[at:]
        elif how == 3:
            lines[place] = line[:at] + chr(draw.randrange(32, 127)) + line[at + 1:]
        elif how == 4:
            lines[place] = line[:at] + line[at + 1:]
        elif how == 5:
            words = line.split(" ")
            words[draw.randrange(len(words))] = draw.choice(SPLICES)
            lines[place] = " ".join(words)
        else:
            other = draw.randrange(len(lines))
            lines[place], lines[other] = lines[other], line
        if not lines:
            return ""
    return "\n".join(lines)


def test_mutated_texts_raise_typed_errors_only(small: Program) -> None:
    draw = random.Random(3)
    seeds = [disassemble_bytes(data, "x").text for data in (write_hwx(small), write_anec(small), write_anec(small))]
    outcomes: Counter[str] = Counter()
    for number in range(MUTANTS):
        text = mutated(draw.choice(seeds), draw)
        start = time.process_time()
        try:
            assert len(assemble(text, lambda name: b"")) <= 1 << 20
            outcomes["assembled"] += 1
        except AneError as error:
            outcomes["refused" if str(error) else "silent"] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number}") from error
        assert time.process_time() - start < SLOWEST, f"mutant {number}"
    assert not outcomes["silent"]
    assert outcomes["assembled"] > MUTANTS // 20
    assert outcomes["refused"] > MUTANTS // 5


def test_a_wide_descriptor_that_states_too_many_words_is_read_as_far_as_it_reaches(monkeypatch) -> None:
    build = GraphBuilder()
    graph = build.finish({"y": build.add("relu", x=build.input("x", "fp16", (1, 8, 4, 4)))})
    data = bytearray(write_hwx(compile(graph, "h14").programs[0]))
    words = [at for at in range(0, len(data) - 16, 4)
             if struct.unpack_from("<I4xI", data, at) == (THREAD, WIDE_PROGRAM)]
    struct.pack_into("<I", data, words[0] + 12, 0xFFFFFFFF)
    asked = []
    record = Claims.record
    monkeypatch.setattr(Claims, "record", lambda *given, **said: (asked.append(given), record(*given, **said)))
    listing = disassemble_bytes(bytes(data))
    assert assemble(listing.text, lambda _: listing.sidecar) == bytes(data)
    assert len(asked) < 1000
