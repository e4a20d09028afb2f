"""An index of weights that names what is no file beside it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from support.tiny_llama import write_directory

from openane.errors import FormatError
from openane.models.load import opened


@pytest.mark.parametrize("name", ["missing", "\ud800", "x" * 5000, "a\0b", "..", " ", "pipe", "folder"])
def test_weights_that_are_no_file_are_said_to_be_missing(name: str, tmp_path: Path) -> None:
    folder = write_directory(tmp_path / "tiny")
    os.mkfifo(folder / "pipe")  # which would be waited for
    (folder / "folder").mkdir()
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": {"a": name}}))
    with pytest.raises(FormatError, match="is missing"), opened(folder):
        pass
