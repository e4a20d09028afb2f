"""Mutated files load or are refused by a typed error; $OPENANE_FUZZ sets the mutants per format (default 1500)."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from openane.errors import FormatError, ProgramError
from openane.formats import detect, load_program, write_anec, write_hwx
from openane.formats.macho import PAGE
from openane.program import Program

MUTANTS = int(os.environ.get("OPENANE_FUZZ", "1500"))
EXTREMES = (0, 1, 2, 0x7F, 0xFF, 0x200, 0x4000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFF0, 0xFFFFFFFF, 0x30000000)
SLOWEST = 2.0  # seconds for one mutant


def _flip(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 2, 8))):
        data[_place(data, draw)] ^= 1 << draw.randrange(8)


def _truncate(data: bytearray, draw: random.Random) -> None:
    del data[draw.choice((draw.randrange(len(data)), _place(data, draw))):]


def _overwrite(data: bytearray, draw: random.Random) -> None:
    for _ in range(draw.choice((1, 1, 3))):
        place = _place(data, draw) & ~3
        data[place:place + 4] = draw.choice((*EXTREMES, draw.getrandbits(32), len(data))).to_bytes(4, "little")


def _splice(data: bytearray, draw: random.Random) -> None:
    length = draw.choice((4, 8, 64, 0x300))
    source, target = _place(data, draw) & ~3, _place(data, draw) & ~3
    piece = data[source:source + length]
    if draw.random() < 0.3:
        data[target:target] = piece
    else:
        data[target:target + len(piece)] = piece


def _place(data: bytearray, draw: random.Random) -> int:
    """Mostly where structure is: not in the zeros that make up most of a file."""
    place = draw.randrange(len(data))
    for _ in range(3):
        if any(data[place & ~15:(place & ~15) + 16]):
            break
        place = draw.randrange(min(len(data), 2 * PAGE))
    return place


CHANGES: tuple[Callable[[bytearray, random.Random], None], ...] = (_flip, _truncate, _overwrite, _splice)


def _fuzz(seeds: list[bytes], seed: int) -> Counter[str]:
    draw = random.Random(seed)
    outcomes: Counter[str] = Counter()
    for number in range(MUTANTS):
        data = bytearray(draw.choice(seeds))
        changes = [draw.choice(CHANGES) for _ in range(draw.choice((1, 1, 1, 2)))]
        for change in changes:
            if data:
                change(data, draw)
        start = time.perf_counter()
        try:
            load_program(bytes(data))
            outcomes["loaded"] += 1
        except (FormatError, ProgramError) as error:
            outcomes[type(error).__name__ if str(error) else "silent"] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number} of seed {seed}: {[c.__name__ for c in changes]}") from error
        assert time.perf_counter() - start < SLOWEST, f"mutant {number} of seed {seed}"
    return outcomes


def _own(program: Program) -> list[bytes]:
    return [write_hwx(program), write_hwx(program, "compat"), write_anec(program), write_anec(program, 0x800)]


def _check(outcomes: Counter[str]) -> None:
    assert outcomes.total() == MUTANTS
    assert not outcomes["silent"], "an error says nothing"
    assert outcomes["loaded"] > MUTANTS // 100, "the mutations leave nothing to read: they test one check only"
    assert outcomes["FormatError"] > MUTANTS // 10


@pytest.mark.parametrize("container", ["hwx", "anec"])
def test_own_files(small: Program, container: str) -> None:
    _check(_fuzz([d for d in _own(small) if detect(d) == container], 1))


@pytest.mark.parametrize("container", ["hwx", "anec"])
def test_apples_files(corpus: Path, container: str) -> None:
    seeds = [p.read_bytes() for p in sorted((corpus / "apple").glob(f"*/*.{container}")) if p.stat().st_size < 1 << 17]
    _check(_fuzz(seeds, 2))
