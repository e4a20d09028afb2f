"""What `ane` says of a large network fits a screen and leaves nothing out of its counts."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from openane.cli import main
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder

Capture = pytest.CaptureFixture[str]
SCREEN = 30
BLOCKS = 24


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Residual blocks of two convolutions each, a reshape and a linear layer behind them."""
    rng = np.random.default_rng(0)
    b = GraphBuilder()
    value = b.input("image", "fp32", (1, 8, 8, 8))
    value = b.single("cast", "half", x=value, dtype="fp16")
    for number in range(BLOCKS):
        one, two = (rng.standard_normal((8, 8, 3, 3)).astype(np.float16) / np.float16(16) for _ in range(2))
        inner = b.single("conv", f"one{number}", x=value, weight=one, pad_type="same")
        inner = b.single("relu", f"clamp{number}", x=inner)
        inner = b.single("conv", f"two{number}", x=inner, weight=two, pad_type="same")
        value = b.single("relu", f"out{number}", x=b.single("add", f"sum{number}", x=inner, y=value))
    flat = b.single("reshape", "flat", x=value, shape=np.int32([1, 512]))
    weight = rng.standard_normal((10, 512)).astype(np.float16) / np.float16(32)
    text, weights = print_mil(b.finish({"y": b.single("linear", "y", x=flat, weight=weight)}))
    folder = tmp_path_factory.mktemp("network")
    (folder / "weights").mkdir()
    (folder / "weights" / "weight.bin").write_bytes(weights)
    (folder / "model.mil").write_text(text)
    return folder / "model.mil"


def counts(lines: list[str]) -> dict[str, int]:
    """Place to how many operations are there, whose kinds must add up to as many."""
    found = {}
    start = next(number for number, line in enumerate(lines) if line.endswith("operations:"))
    for line in lines[start + 1:start + 7]:
        row = re.fullmatch(r"  (engine|fused|free|folded|host) +(\d+)  [a-z: ]+?(?:  +(\d.*))?", line)
        if row:
            found[row[1]] = int(row[2])
            assert sum(int(item.split()[0]) for item in (row[3] or "0").split(", ")) == found[row[1]]
    assert int(lines[start].split()[0]) == sum(found.values())
    return found


def test_the_summary_of_a_large_network_fits_a_screen(network: Path, tmp_path: Path, capsys: Capture) -> None:
    compile_it = ["compile", str(network), "-o", str(tmp_path / "m.ane")]
    assert main([*compile_it, "--json"]) == 0
    operations = [entry for entry in json.loads(capsys.readouterr().out)["operations"] if entry["where"] != "port"]
    assert len(operations) > 4 * BLOCKS
    found = {}
    for arguments in (compile_it, ["run", str(network)], ["run", str(tmp_path / "m.ane"), "--check"]):
        assert main(arguments) == 0
        captured = capsys.readouterr()
        lines = (captured.out + captured.err).splitlines()
        assert len(lines) <= SCREEN
        assert not [line for line in lines[1:] if len(line) > 120]  # the first has the file's path
        found[tuple(arguments)] = counts(lines)
    first, *others = found.values()
    assert all(other == first for other in others)
    assert sum(first.values()) == len(operations)
    assert first["fused"] >= BLOCKS
    assert first["host"] == 0


@pytest.mark.parametrize("verb", ["compile", "run"])
def test_the_report_has_every_operation(verb: str, network: Path, tmp_path: Path, capsys: Capture) -> None:
    written = ["-o", str(tmp_path / "m.ane")] if verb == "compile" else []
    assert main([verb, str(network), *written, "--report"]) == 0
    captured = capsys.readouterr()
    text = captured.out + captured.err
    for number in range(BLOCKS):
        assert all(re.search(rf"^  (engine|fused) +\w+ '{name}{number}'", text, re.MULTILINE)
                   for name in ("one", "clamp", "two", "sum", "out"))
    assert "in the last stage of conv" in text


def test_what_was_compiled_before_is_said_to_be(network: Path, tmp_path: Path, capsys: Capture,
                                                monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    words = "from the cache: compiled before with the same options (--no-cache compiles it again)"
    for arguments, known in ((["run"], False), (["run"], True), (["compile", "-o", str(tmp_path / "m.ane")], True),
                             (["profile"], True), (["explain"], True), (["run", "--no-cache"], False),
                             (["run", "--allow-host"], False)):
        assert main([*arguments, str(network)]) == 0
        captured = capsys.readouterr()
        assert (words in captured.out + captured.err) is known, arguments


def test_a_refusal_is_the_same_of_every_command(tmp_path: Path, capsys: Capture) -> None:
    b = GraphBuilder()
    x = b.input("x", "fp16", (2, 40))
    text, _ = print_mil(b.finish({"y": b.single("argsort", "order", x=x, axis=-1)}))
    (tmp_path / "m.mil").write_text(text)
    refusals, targets = set(), set()
    for verb in ("compile", "run", "profile", "explain"):
        assert main([verb, str(tmp_path / "m.mil")]) == 1
        refusals.add(capsys.readouterr().err)
        assert main([verb, str(tmp_path / "m.mil"), "--target", "h11"]) == 1
        targets.add(capsys.readouterr().err)
    assert len(refusals) == len(targets) == 1
    assert "argsort 'order'" in refusals.pop()
    assert "target 'h11'" in targets.pop()


def test_samples_are_looked_at_by_every_command(network: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "large.npy", np.full((1, 8, 8, 8), 5e4, np.float32))
    for verb in (["compile", "-o", str(tmp_path / "m.ane")], ["run"], ["profile"], ["explain"]):
        assert main([*verb, str(network), "--sample", f"image={tmp_path / 'large.npy'}"]) == 0
        captured = capsys.readouterr()
        assert "sums become infinite" in captured.out + captured.err
        assert main([*verb, str(network), "--sample", f"picture={tmp_path / 'large.npy'}"]) == 1
        assert "--sample picture: there is no input of this name (limit image" in capsys.readouterr().err


def test_host_operations_are_listed_in_the_same_words(tmp_path: Path, capsys: Capture) -> None:
    b = GraphBuilder()
    order = b.single("argsort", "order", x=b.input("x", "fp16", (2, 40)), axis=-1)
    text, _ = print_mil(b.finish({"y": b.single("add", x=b.single("cast", x=order, dtype="fp16"), y=np.float16(1))}))
    (tmp_path / "m.mil").write_text(text)
    listed = set()
    for arguments in (["run"], ["profile"]):
        assert main([*arguments, str(tmp_path / "m.mil"), "--allow-host"]) == 0
        out = capsys.readouterr().out
        assert "1 host operation" in out
        listed |= set(re.findall(r"^  host: argsort 'order'.*$", out, re.MULTILINE))
    assert len(listed) == 1
