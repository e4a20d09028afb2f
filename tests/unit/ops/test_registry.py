"""Operations are found without importing their modules, and modules that the table does not know are found too."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support import operation_homes

from openane import ops
from openane.errors import GraphError
from openane.graph import Node
from openane.ops import all_ops
from openane.ops.endings import endings
from openane.ops.homes import ENDINGS, HOMES
from openane.ops.registry import Registry


def test_the_table_is_what_the_modules_say() -> None:
    assert operation_homes.FILE.read_text() == operation_homes.written(), "make docs writes it anew"


def test_one_module_is_imported_for_one_operation(monkeypatch: pytest.MonkeyPatch) -> None:
    known, wanted = Registry("openane.ops", HOMES, HOMES), dict(all_ops())
    taken: list[str] = []
    monkeypatch.setattr("openane.ops.registry.import_module", lambda name: taken.append(name) or sys.modules[name])
    assert known["relu"] is wanted["relu"]
    assert known.get("relu6") is wanted["relu6"]
    assert known.get("conv") is wanted["conv"]
    assert known.get("no_such") is None
    assert "no_such" not in known
    assert taken == ["openane.ops.rectifiers", "openane.ops.conv"]
    assert list(known) == sorted(known) == list(all_ops())
    assert len(known) == len(dict(known))


def test_a_module_that_the_table_does_not_know_is_imported() -> None:
    some = {module: names for module, names in HOMES.items() if module not in ("softmax", "accuracy")}
    known = Registry("openane.ops", some, HOMES)
    assert set(known.unstated) == {"softmax"}
    assert list(known) == list(all_ops())


def test_an_operation_beside_the_stated_ones_is_found() -> None:
    some = {**HOMES, "rectifiers": tuple(name for name in HOMES["rectifiers"] if name != "relu6")}
    known = Registry("openane.ops", some, HOMES)
    assert "relu6" not in known
    known.complete()
    assert known["relu6"] is all_ops()["relu6"]


def test_two_modules_may_not_describe_one_operation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "again.py").write_text("from openane.ops.softmax import OPS\n")
    monkeypatch.setattr(ops, "__path__", [*ops.__path__, str(tmp_path)])
    try:
        with pytest.raises(GraphError, match="softmax: described twice"):
            Registry("openane.ops", HOMES, [*HOMES, "again"])
    finally:
        sys.modules.pop("openane.ops.again", None)


def test_operations_that_are_written_out_are_found_by_their_last_node() -> None:
    for last in ENDINGS:
        wanted = [op.recognise[last] for op in all_ops().values() if last in op.recognise]
        assert list(endings(Node(last, {}, (), "n"))) == wanted
