"""What is said of files that are no models, and texts as editors of other systems write them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from openane.configuration import read_file
from openane.errors import AneError
from openane.importers import load_graph

RELU = """program(1.0)
{
    func main<ios16>(tensor<fp16, [1, 4, 2, 8]> x) {
        tensor<fp16, [1, 4, 2, 8]> y = relu(x = x)[name = string("y")];
    } -> (y);
}
"""


@pytest.mark.parametrize(("name", "data", "said"), [
    ("m.pt2", b"", "an empty file"),
    ("m.pt2", b"text", "no zip archive"),
    ("m.gguf", b"GGUF\3\0\0\0", "which ane generate and ane serve run"),
    ("m.ane.s", b"openane 1 hwx h13\n", "which ane asm assembles"),
    ("m.safetensors", b"\x10\0\0\0\0\0\0\0{}", "name the folder that has config.json"),
    ("m.mlir", b"", "it has no function at all"),
    ("m.plist", b"", "expected XML, a binary property list or JSON, found nothing"),
])
def test_other_files_are_called_what_they_are(name: str, data: bytes, said: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(data)
    with pytest.raises(AneError, match=said):
        load_graph(tmp_path / name)


def test_a_pipe_is_not_read_twice(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "m.onnx")
    with pytest.raises(AneError, match="a pipe, which can be read once only"):
        load_graph(tmp_path / "m.onnx")


@pytest.mark.parametrize("change", [lambda text: "\ufeff" + text, lambda text: text.replace("\n", "\r\n")],
                         ids=["byte order mark", "ends of lines"])
def test_texts_from_windows(change: object, tmp_path: Path) -> None:
    assert callable(change)
    (tmp_path / "m.mil").write_bytes(change(RELU).encode())
    assert [node.op for node in load_graph(tmp_path / "m.mil").nodes] == ["relu"]
    (tmp_path / "m.toml").write_bytes(change("[farm]\nx = 1\n").encode())
    assert read_file(tmp_path / "m.toml") == {"farm": {"x": 1}}
