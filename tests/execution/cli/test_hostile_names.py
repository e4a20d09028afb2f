"""Names from files neither command the terminal nor fill it, whatever command prints them."""

from __future__ import annotations

import json
import re

import numpy as np
import onnx
import pytest

from openane.cli import main

CLEARS = "\x1b[2J\x9b31m\x07\u202eevil"
LONG = "n" * 5000
ESCAPES = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """A model whose names are hostile, and what is compiled of it."""
    folder = tmp_path_factory.mktemp("hostile")
    h, floats = onnx.helper, onnx.TensorProto.FLOAT
    weight = h.make_tensor(f"w{CLEARS}", floats, [4, 4], np.arange(16) / 16)
    nodes = [h.make_node("MatMul", [f"x{CLEARS}", weight.name], [LONG], name=f"node{CLEARS}{LONG}"),
             h.make_node("Relu", [LONG], [f"y{CLEARS}"], name=f"second{CLEARS}")]
    ports = [h.make_tensor_value_info(f"{name}{CLEARS}", floats, [1, 4]) for name in "xy"]
    graph = h.make_graph(nodes, f"graph{CLEARS}{LONG}", ports[:1], ports[1:], [weight])
    model = h.make_model(graph, opset_imports=[h.make_opsetid("", 18)], producer_name=CLEARS)
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    broken = h.make_graph([h.make_node(f"Op{CLEARS}", [f"x{CLEARS}"], [f"y{CLEARS}"], name=f"{CLEARS}{LONG}")],
                          "g", ports[:1], ports[1:])
    (folder / "broken.onnx").write_bytes(h.make_model(broken).SerializeToString())
    assert main(["compile", str(folder / "m.onnx"), "-o", str(folder / "m.hwx"), "--no-cache"]) == 0
    assert main(["compile", str(folder / "m.onnx"), "-o", str(folder / "m.ane"), "--no-cache"]) == 0
    return folder


COMMANDS = (
    "compile m.onnx -o out.hwx --report --no-cache", "info m.onnx", "info m.hwx", "info m.ane", "dis m.hwx",
    "dis m.ane", "diff m.hwx m.hwx", "verify m.hwx", "verify m.ane", "profile m.onnx --all --report",
    "profile m.hwx --all", "explain m.onnx", "run m.onnx --check --report", "run m.hwx", "check m.onnx --all",
    "quantize m.onnx", "compile m.onnx --target all -o all.ane --no-cache", "info broken.onnx",
    "compile broken.onnx -o b.hwx", f"info {CLEARS}.onnx", "cache list",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_printed_is_harmless(command, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    capsys.readouterr()
    main(command.split(" "))
    printed = capsys.readouterr()
    for text in (printed.out, printed.err):
        assert not ESCAPES.search(text)
        assert "\u202e" not in text or command.startswith("dis")
        if not command.startswith("dis"):
            assert max(map(len, text.split("\n"))) <= 1100


@pytest.mark.parametrize("command", ["info m.hwx --json", "run m.onnx --json", "verify m.hwx --json",
                                     "profile m.hwx --json", "diff m.hwx m.hwx --json", "info m.onnx --json"])
def test_documents_for_programs_are_ascii(command, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    capsys.readouterr()
    main(command.split(" "))
    text = capsys.readouterr().out
    assert text.isascii()
    assert not ESCAPES.search(text)
    json.loads(text)


@pytest.mark.parametrize("command", ["profile m.onnx --html page.html", "check m.onnx --page page.html",
                                     "compile m.onnx --target h13,h14 -o two.ane --no-cache --page page.html"])
def test_pages_hold_no_control_characters(command, files, monkeypatch, capsys):
    monkeypatch.chdir(files)
    (files / "page.html").unlink(missing_ok=True)
    assert main(command.split(" ")) in (0, 1)
    page = (files / "page.html").read_text()
    assert not ESCAPES.search(page)
    assert "\u202e" not in page
