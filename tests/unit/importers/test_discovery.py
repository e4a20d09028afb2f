"""Handlers of operators are found by listing the modules of a package."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openane.errors import GraphError
from openane.importers.discovery import handlers


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty package `found_handlers`, known as long as the test runs."""
    folder = tmp_path / "found_handlers"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    for name in [name for name in sys.modules if name.partition(".")[0] == folder.name]:
        monkeypatch.delitem(sys.modules, name)
    return folder


def found(package: Path) -> dict[str, int]:
    return dict(handlers(package.name, [str(package)], "OPERATORS"))


def test_modules_that_export_the_table_are_found(package: Path) -> None:
    (package / "second.py").write_text("OPERATORS = {'Sub': 2}")
    (package / "first.py").write_text("OPERATORS = {'Add': 1}")
    (package / "shared.py").write_text("OTHER = {'Mul': 3}")
    assert found(package) == {"Add": 1, "Sub": 2}


def test_two_modules_with_one_operator_are_refused(package: Path) -> None:
    for name in ("first", "second"):
        (package / f"{name}.py").write_text("OPERATORS = {'Add': 1}")
    with pytest.raises(GraphError, match=r"Add: found_handlers\.second handles what another module"):
        found(package)
