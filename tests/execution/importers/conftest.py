"""What tests of importers share: the models that the benchmark of many models builds."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOM = Path(__file__).parents[3] / "benchmarks"


@pytest.fixture(scope="module")
def libraries() -> Iterator[Any]:
    """What builds the models of the benchmark's lists."""
    sys.path.insert(0, str(ROOM))
    try:
        from zoo_models import libraries
    finally:
        sys.path.remove(str(ROOM))
    yield libraries
    for name in [name for name in sys.modules if name.partition(".")[0] == "zoo_models"]:
        del sys.modules[name]
