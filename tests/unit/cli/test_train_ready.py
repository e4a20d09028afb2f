"""What a training needs is asked for before it begins."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from openane.cli import FAILED, main
from openane.version import pip_line

SHIPPED = Path(__file__).parents[3] / "examples" / "digits" / "train_digits.toml"


def test_a_missing_library_of_checkpoints_is_told_before_training(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    assert main(["train", str(SHIPPED), "--output", str(tmp_path / "out")]) == FAILED
    assert pip_line("train") in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
