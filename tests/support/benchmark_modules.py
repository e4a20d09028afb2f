"""Modules of the benchmarks, which tests run parts of."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from types import ModuleType

ROOM = Path(__file__).parents[2] / "benchmarks"


@contextmanager
def benchmark_modules(*names: str) -> Iterator[list[ModuleType]]:
    """The modules of these names, which are forgotten in the end."""
    sys.path.insert(0, str(ROOM))
    try:
        found = [import_module(name) for name in names]
    finally:
        sys.path.remove(str(ROOM))
    yield found
    rooms = {name.partition(".")[0] for name in names}
    for name in [name for name in sys.modules if name.partition(".")[0] in rooms]:
        del sys.modules[name]
