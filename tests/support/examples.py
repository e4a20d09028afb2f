"""The modules of an example, imported as its command imports them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

EXAMPLES = Path(__file__).parents[2] / "examples"


@contextmanager
def example_modules(name: str, *modules: str) -> Iterator[SimpleNamespace]:
    """The modules of examples/NAME by name; what they are called is free again afterwards."""
    folder = EXAMPLES / name
    sys.path.insert(0, str(folder))
    try:
        yield SimpleNamespace(**{module: __import__(module) for module in modules})
    finally:
        sys.path.remove(str(folder))
        for path in folder.glob("*.py"):
            sys.modules.pop(path.stem, None)
