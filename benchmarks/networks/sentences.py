"""English sentences to calibrate with, of text that machines have: examples in WordNet's dictionary, or Python's own
documentation."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator
from pathlib import Path
from random import Random

WORDNET = Path("/usr/share/wordnet")
"""Where Debian's package wordnet-base keeps the dictionary: some 35,000 examples of how words are used."""
FEWEST_WORDS = 4
_EXAMPLE = re.compile(r'"([^"]+)"')
_PLAIN = re.compile(r"[A-Z][A-Za-z ,;:'()-]+[.?!]")


def sentences(count: int) -> list[str]:
    """So many different ones, drawn from a seed; fewer where there are no more."""
    found = sorted(set(_wordnet() if WORDNET.is_dir() else _documentation()))
    return Random(0).sample(found, min(count, len(found)))


def _wordnet() -> Iterator[str]:
    for file in sorted(WORDNET.glob("data.*")):
        for line in file.read_text(errors="replace").splitlines():
            for example in map(str.strip, _EXAMPLE.findall(line.partition("|")[2])):
                if len(example.split()) >= FEWEST_WORDS:
                    yield example[0].upper() + example[1:] + ("" if example[-1] in ".!?" else ".")


def _documentation() -> Iterator[str]:
    """Sentences of letters alone, of the docstrings of Python's library."""
    for file in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*.py")):
        for node in ast.walk(ast.parse(file.read_bytes())):
            text = ast.get_docstring(node) if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) else None
            for sentence in re.split(r"(?<=[.?!])\s+", text or ""):
                plain = " ".join(sentence.split())
                if len(plain.split()) >= FEWEST_WORDS and _PLAIN.fullmatch(plain):
                    yield plain
