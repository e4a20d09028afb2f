"""What the compiler makes of the MIL of every recorded compilation of Apple's compiler, in $OPENANE_CORPUS."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from records.reading import materialiser

from guarded.groups import NotHere
from openane.compiler import Model, compile
from openane.importers.mil import load_mil

VARIABLE = "OPENANE_CORPUS"


def makers() -> dict[str, Callable[[str], Model]]:
    """What compiles each record for a target, by name. NotHere where there are no records."""
    corpus = os.environ.get(VARIABLE)
    if not corpus:
        raise NotHere(f"{VARIABLE} is not set: it names the folder that has apple/oracles")
    folder = Path(corpus) / "apple" / "oracles"
    if not folder.is_dir():
        raise NotHere(f"{VARIABLE} names a folder without apple/oracles")
    write = materialiser(folder)
    return {path.stem: partial(_compiled, path, write) for path in folder.glob("*.json")}


def _compiled(record: Path, write: Callable[[str, str], None], target: str) -> Model:
    with tempfile.TemporaryDirectory() as folder:
        write(str(record), folder)
        return compile(load_mil(Path(folder) / "model.mil"), target)
