"""The exact arithmetic reproduces published error norms of real chips: the quick ones (benchmarks run all of them)."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

from openane.simulator.arithmetic import direct_conv3x3, matrix_product, winograd_conv3x3


def load_recipes(corpus: Path) -> ModuleType:
    """The recipes and published values, from the corpus."""
    spec = importlib.util.spec_from_file_location("fingerprints", corpus / "silicon" / "fingerprints.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_quick_fingerprints(corpus: Path) -> None:
    assert load_recipes(corpus).check(matrix_product, direct_conv3x3, winograd_conv3x3, level=0) < 1e-12
