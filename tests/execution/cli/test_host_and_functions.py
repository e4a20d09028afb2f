"""`ane` on models of several steps: leave for the host, what is listed, functions in one bundle."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from openane.cli import FAILED, main
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder

Capture = pytest.CaptureFixture[str]

FUNCTIONS = """program(1.3)
{
  func prefill<ios18>(tensor<fp16, [4, 64]> x, state<tensor<fp16, [4, 64]>> cache) {
    tensor<fp16, [4, 64]> y = relu(x = x)[name = string("y")];
    write_state(data = y, input = cache)[name = string("w")];
  } -> (y);
  func decode<ios18>(tensor<fp16, [4, 64]> x, state<tensor<fp16, [4, 64]>> cache) {
    tensor<fp16, [4, 64]> old = read_state(input = cache)[name = string("old")];
    tensor<fp16, [4, 64]> z = sub(x = x, y = old)[name = string("z")];
    write_state(data = z, input = cache)[name = string("w")];
  } -> (z);
}
"""


@pytest.fixture
def lookup(tmp_path: Path) -> Path:
    """A MIL program that reads rows of a table by number, which the engine cannot, of a short table."""
    builder = GraphBuilder()
    ids = builder.input("ids", "int32", (4,))
    table = np.random.default_rng(0).uniform(-1, 1, (9, 16)).astype(np.float16)
    rows = builder.single("gather", "rows", x=table, indices=ids, axis=0)
    text, weights = print_mil(builder.finish({"y": builder.single("relu", "y", x=rows)}))
    (tmp_path / "weights").mkdir()
    (tmp_path / "weights" / "weight.bin").write_bytes(weights)
    (tmp_path / "model.mil").write_text(text)
    return tmp_path / "model.mil"


def test_what_the_host_does_is_listed_and_can_be_forbidden(lookup: Path, tmp_path: Path, capsys: Capture) -> None:
    bundle = tmp_path / "model.ane"
    for verb in ("compile", "run"):
        assert main([verb, str(lookup), "--on-host", "none"]) == FAILED
        assert "Indices must be constants" in capsys.readouterr().err
    assert main(["compile", str(lookup), "-o", str(bundle), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["programs"], document["host_operations"]) == (1, 1)
    [host] = [entry for entry in document["operations"] if entry["where"] == "host"]
    assert host["operation"].startswith("gather 'rows'")
    assert "Indices must be constants" in host["reason"]
    for arguments in ([str(bundle)], [str(lookup)], [str(lookup), "--on-host", "gather"]):
        assert main(["run", *arguments, "--check", "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert (document["programs"], document["host_operations"]) == (1, 1)
        assert document["outputs"]["y"]["error"]["max_abs"] < 1e-3
    assert main(["info", str(bundle)]) == 0
    text = capsys.readouterr().out
    assert "2 steps, 1 program, 1 host operation" in text
    assert "host: gather 'rows'" in text
    assert main(["compile", str(lookup), "-o", str(tmp_path / "model.hwx"), "--allow-host"]) == FAILED
    assert "save a bundle" in capsys.readouterr().err


def test_several_functions_make_one_bundle(tmp_path: Path, capsys: Capture) -> None:
    (tmp_path / "f.mil").write_text(FUNCTIONS)
    bundle = tmp_path / "f.ane"
    assert main(["compile", str(tmp_path / "f.mil"), "--function", "prefill", "--function", "decode", "-o",
                 str(bundle)]) == 0
    capsys.readouterr()
    assert main(["info", str(bundle), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert [function["name"] for function in document["functions"]] == ["prefill", "decode"]
    assert [function["states"][0]["name"] for function in document["functions"]] == ["cache", "cache"]
    for subject in (bundle, tmp_path / "f.mil"):
        assert main(["run", str(subject), "--function", "decode", "--check", "--json"]) == 0
        assert list(json.loads(capsys.readouterr().out)["outputs"]) == ["z"]
    assert main(["run", str(bundle), "--function", "encode"]) == FAILED
    assert "prefill, decode" in capsys.readouterr().err
