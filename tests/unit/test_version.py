"""How more of the package is installed depends on where it was installed from."""

from __future__ import annotations

import json
from importlib import metadata
from pathlib import Path

import pytest

from openane.version import pip_line

RELEASE = "pip install 'openane[onnx]'"


class Installed:
    """An installation whose origin is a text, as pip writes it, or not known."""

    def __init__(self, origin: object) -> None:
        self.origin = origin if origin is None or isinstance(origin, str) else json.dumps(origin)

    def read_text(self, name: str) -> str | None:
        """The text of one file of the installation."""
        return self.origin if name == "direct_url.json" else None


def line(monkeypatch: pytest.MonkeyPatch, origin: object) -> str:
    monkeypatch.setattr(metadata, "distribution", lambda _: Installed(origin))
    return pip_line("onnx")


def test_a_release_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    gone = {"url": (tmp_path / "gone").as_uri(), "dir_info": {}}
    for origin in (None, "", "{", "[]", gone, {"url": "https://example.org/openane.whl"}, {"url": 1}, {"url": "file:"}):
        assert line(monkeypatch, origin) == RELEASE
    monkeypatch.setattr(metadata, "distribution", lambda _: (_ for _ in ()).throw(metadata.PackageNotFoundError()))
    assert pip_line("onnx") == RELEASE


def test_a_checkout_or_an_archive_is_told_by_its_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    folder = tmp_path / "our tree"
    folder.mkdir()
    assert line(monkeypatch, {"url": folder.as_uri(), "dir_info": {}}) == f"pip install '{folder}[onnx]'"
    assert line(monkeypatch, {"url": folder.as_uri(), "dir_info": {"editable": True}}) == \
        f"pip install -e '{folder}[onnx]'"
    wheel = tmp_path / "openane-1.0-py3-none-any.whl"
    wheel.write_bytes(b"")
    assert line(monkeypatch, {"url": wheel.as_uri(), "archive_info": {}}) == f"pip install '{wheel}[onnx]'"
