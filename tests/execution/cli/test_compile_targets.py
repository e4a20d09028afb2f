"""`ane compile` for several targets: the table, JSON, the page and the bundle, and what commands make of that."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from openane.chips import compiled_generations, get_chip
from openane.cli import FAILED, main
from openane.compiler import Model
from openane.graph import Graph
from openane.graph.mil import print_mil
from openane.ops.build import GraphBuilder

DIGITS = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
EVERY = compiled_generations()
Capture = pytest.CaptureFixture[str]


def written(graph: Graph, folder: Path) -> Path:
    """The graph as a file of MIL text."""
    text, weights = print_mil(graph)
    (folder / "weights").mkdir(parents=True)
    (folder / "weights" / "weight.bin").write_bytes(weights)
    (folder / "model.mil").write_text(text)
    return folder / "model.mil"


def wide(width: int) -> Graph:
    """Wider than a tensor of H13 to H15 may be, and not than one of H16 on."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 8, 1, width))
    weight = np.random.default_rng(0).standard_normal((8, 8, 1, 3)).astype(np.float16)
    h = builder.single("add", x=builder.single("relu", x=x), y=x)
    return builder.finish({"y": builder.single("conv", "y", x=h, weight=weight, pad_type="same")})


def unsupported() -> Graph:
    """An operation that no engine computes."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 16))
    return builder.finish({"y": builder.single("local_response_norm", "y", x=x, size=2)})


@pytest.fixture(scope="module")
def tiled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    limits = get_chip("h15").limits, get_chip("h16").limits
    assert limits[0].width < 20000 <= limits[1].width
    return written(wide(20000), tmp_path_factory.mktemp("wide") / "m")


def compiled(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    assert main(["compile", *map(str, arguments), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_a_row_for_each_generation_agrees_with_compiling_and_profiling_alone(tmp_path: Path, capsys: Capture) -> None:
    document = compiled(capsys, DIGITS, "--target", "all", "-o", tmp_path / "d.ane")
    assert document["compiled"] == document["columns"] == list(EVERY)
    assert [row["target"] for row in document["targets"]] == list(EVERY)
    assert document["file"] == str(tmp_path / "d.ane")
    for row in document["targets"]:
        name = row["generation"]
        alone = compiled(capsys, DIGITS, "--target", name, "-o", tmp_path / "one.ane")
        assert main(["profile", str(tmp_path / "one.ane"), "--json"]) == 0
        profile = json.loads(capsys.readouterr().out)
        assert (row["tasks"], row["constant_bytes"], row["programs"]) == (
            alone["tasks"], alone["constant_bytes"], alone["programs"])
        assert row["program_bytes"] == profile["memory"]["task descriptors"]
        assert row["scratch_bytes"] == profile["memory"].get("intermediates", 0)
        assert (row["time_us"], row["engine_us"], row["times"], row["chip"]) == (
            profile["time_us"], profile["engine_us"], profile["kinds"]["times"], profile["chip"])
        assert row["chip"] in row["chips"]
        assert row["refused"] is None
    assert {row["times"] for row in document["targets"]} == {"modelled", "extrapolated"}
    places = {row["operation"]: row["places"] for row in document["operations"]}
    listed = {entry["operation"]: len(entry["tasks"]) or entry["where"] for entry in alone["operations"]
              if entry["where"] != "port"}
    assert {name: each[-1] for name, each in places.items()} == listed


def test_the_table_is_read_in_100_columns(tiled: Path, tmp_path: Path, capsys: Capture,
                                          monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(tiled), "--target", "all", "-o", "m.ane"]) == 0
    captured = capsys.readouterr()
    lines = captured.out.splitlines()
    assert not captured.err
    assert max(map(len, lines)) <= 100
    assert lines[0] == f"m.ane: compiled for {', '.join(EVERY)}, 6 of 6 generations"
    heads = lines[1].split()
    assert heads[:5] == ["target", "tasks", "program", "constants", "scratch"]
    assert [line.split()[0] for line in lines[2:8]] == list(EVERY)
    assert all(line.split()[-1] in ("modelled", "extrapolated") for line in lines[2:8])
    end = lines[1].index("tasks") + len("tasks")  # numbers stand under the end of their heading
    tasks = [int(line[:end].split()[-1]) for line in lines[2:8]]
    assert tasks[:3] == [9, 9, 9]
    assert tasks[3:] == [2, 2, 2]
    at = next(number for number, line in enumerate(lines) if "operations that differ" in line)
    assert lines[at].endswith("2 of 3")
    assert lines[at + 1].split() == ["operation", *EVERY]
    assert lines[at + 3].split()[-6:] == ["7", "7", "7", "1", "1", "1"]


def test_chips_and_machines_are_targets_between_commas_or_repeated(tmp_path: Path, capsys: Capture) -> None:
    document = compiled(capsys, DIGITS, "--target", "m4, m4 max", "--target", "MacBook Air 2022", "-o",
                        tmp_path / "d.ane")
    assert [(row["target"], row["generation"], row["chip"]) for row in document["targets"]] == [
        ("m4", "h16", "m4"), ("m4 max", "h16", "m4 max"), ("MacBook Air 2022", "h14", "m2")]
    assert document["compiled"] == ["h16", "h14"]
    first, second, _ = document["targets"]
    assert first["time_us"] != second["time_us"]
    assert first["program_bytes"] == second["program_bytes"]
    assert list(Model.load(tmp_path / "d.ane").targets) == ["h16", "h14"]
    assert main(["compile", str(DIGITS), "--target", "m1,MacBook Air 2022", "-o", str(tmp_path / "e.ane")]) == 0
    assert "macbook air 2022" in capsys.readouterr().out.lower()


def test_a_machine_of_chips_of_different_speed_is_timed_on_the_first(tmp_path: Path, capsys: Capture) -> None:
    document = compiled(capsys, DIGITS, "--target", "MacBook Pro 2024,m1", "-o", tmp_path / "d.ane")
    assert [row["chip"] for row in document["targets"]] == ["m4", "m1"]


def test_a_refusal_is_a_row_and_the_rest_is_written(tmp_path: Path, capsys: Capture,
                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    from openane import compiler
    from openane.errors import UnsupportedError

    whole = compiler.compile

    def partly(graph: Graph, target: str, **arguments: Any) -> Model:
        if target in ("h13", "h14"):
            raise UnsupportedError("conv 'stem'", "too wide for it", limit=1, found=2, remedy="make it narrow")
        return whole(graph, target, **arguments)

    monkeypatch.setattr(compiler, "compile", partly)
    arguments = ["compile", str(DIGITS), "--target", "all", "-o", str(tmp_path / "d.ane"), "--page",
                 str(tmp_path / "d.html")]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "compiled for h15, h16, h17, h18, 4 of 6 generations" in text
    assert "refused for h13, h14: conv 'stem': too wide for it (limit 1, found 2)\nhint: make it narrow" in text
    assert [line.split()[-1] for line in text.splitlines() if line.startswith(("h13 ", "h14 "))] == ["refused"] * 2
    assert "too wide for it" in (tmp_path / "d.html").read_text()
    document = compiled(capsys, *arguments[1:])
    assert [row["refused"] is None for row in document["targets"]] == [False, False, True, True, True, True]
    assert "tasks" not in document["targets"][0]
    assert document["columns"] == list(Model.load(tmp_path / "d.ane").targets) == list(EVERY[2:])


def test_it_fails_and_says_so_only_where_nothing_compiled(tmp_path: Path, capsys: Capture) -> None:
    model = written(unsupported(), tmp_path / "m")
    for option in ([], ["--json"]):
        assert main(["compile", str(model), "--target", "m1,m4", "-o", str(tmp_path / "m.ane"), *option]) == FAILED
        captured = capsys.readouterr()
        assert "none of 2 targets takes" in captured.err
        assert "size must be odd" in captured.out
    assert json.loads(captured.out)["file"] is None
    assert not (tmp_path / "m.ane").exists()
    assert main(["compile", str(model), "--target", "all", "--allow-host", "-o", str(tmp_path / "m.ane")]) == 0
    text = capsys.readouterr().out
    assert text.count("host: local_response_norm 'y'") == 1  # once for all targets
    assert "without 1 host operation, whose time is not modelled" in text


@pytest.mark.parametrize(("arguments", "words"), [
    (["--target", "m1,m4", "-o", "x.hwx"], "a .hwx file holds the program of one target"),
    (["--target", "all", "-o", "x.anec"], "-o x.ane writes one bundle for all of them"),
    (["--target", "m1,m4", "--compiler", "apple"], "one target at a time"),
    (["--target", "m1", "--page", "x.html"], "ane profile MODEL --html"),
    (["--target", "m1,m77"], "no machine, chip or generation has this name"),
    (["--target", "m1,a12"], "known by name only"),
    (["--target", ""], "no machine, chip or generation is named"),
    (["--target", "all", "--sample", "zz=y.npy"], "there is no input of this name"),
])
def test_what_several_targets_cannot_do_is_said_before_anything_is_written(
        arguments: list[str], words: str, tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(DIGITS), *arguments]) == FAILED
    captured = capsys.readouterr()
    assert words in captured.err
    assert not captured.out
    assert list(tmp_path.iterdir()) == []


def test_each_target_is_kept_in_the_cache_for_itself(tiled: Path, tmp_path: Path, capsys: Capture) -> None:
    output = ["-o", str(tmp_path / "m.ane")]
    compiled(capsys, tiled, "--target", "m2", "--no-cache", *output)
    compiled(capsys, tiled, "--target", "m2", *output)
    document = compiled(capsys, tiled, "--target", "h14,h17", *output)
    assert document["targets"][0]["from_cache"]
    assert main(["compile", str(tiled), "--target", "h17", *output]) == 0
    assert "from the cache" in capsys.readouterr().err
    assert main(["compile", str(tiled), "--target", "h14,h17", *output]) == 0
    assert "from the cache: h14, h17 (--no-cache compiles again)" in capsys.readouterr().out


def test_every_target_has_a_folder_in_dump(tmp_path: Path, capsys: Capture) -> None:
    compiled(capsys, DIGITS, "--target", "m1,m4", "-o", tmp_path / "d.ane", "--dump", tmp_path / "dump")
    assert sorted(path.name for path in (tmp_path / "dump").iterdir()) == ["h13", "h16"]
    assert "h16" in (tmp_path / "dump" / "h16" / "40-program0.ane.s").read_text().splitlines()[0]


def test_run_and_profile_take_the_program_of_the_device_or_chip(tiled: Path, tmp_path: Path, capsys: Capture) -> None:
    bundle = tmp_path / "m.ane"
    compiled(capsys, tiled, "--target", "m1,m4", "-o", bundle)

    def document(*arguments: str) -> dict[str, Any]:
        assert main([arguments[0], str(bundle), *arguments[1:], "--json"]) == 0
        found: dict[str, Any] = json.loads(capsys.readouterr().out)
        return found

    many, few = 9, 2
    assert document("run")["tasks"] == many  # the first
    assert main(["run", str(bundle)]) == 0
    assert "  the program for h13; --target takes that for h16\n" in capsys.readouterr().out
    assert document("run", "--device", "simulator:h13")["tasks"] == many
    assert document("run", "--device", "simulator:h16")["target"] == "h16"
    assert document("run", "--device", "simulator:h16", "--check")["tasks"] == few
    assert document("run", "--target", "m4 max", "--check")["tasks"] == few
    assert document("run", "--device", "linux?driver=simulated")["tasks"] == many
    outputs = []
    for chip in ("h13", "h16"):
        document("run", "--device", f"simulator:{chip}", "--output-dir", str(tmp_path / chip))
        outputs.append(np.load(tmp_path / chip / "y.npy"))
    np.testing.assert_allclose(*outputs, rtol=2e-3, atol=2e-2)
    profiles = {chip: document("profile", "--chip", chip) for chip in ("m1", "m4 max", "m6")}
    assert [(each["target"], each["tasks"]) for each in profiles.values()] == [
        ("h13", many), ("h16", few), ("h13", many)]
    assert document("explain", "--chip", "m4")["chip"] == "m4"


def test_a_target_that_a_bundle_lacks_is_said_with_the_command_that_adds_it(tmp_path: Path, capsys: Capture) -> None:
    bundle = str(tmp_path / "d.ane")
    compiled(capsys, DIGITS, "--target", "m1,m2", "-o", bundle)
    assert main(["run", bundle, "--target", "m4"]) == FAILED
    error = capsys.readouterr().err
    assert f"{bundle} is compiled already, and holds no program for h16 (limit h13, h14, found h16)" in error
    assert f"ane compile MODEL --target h13,h14,h16 -o {bundle}" in error
    assert main(["run", bundle, "--device", "simulator:h16"]) == FAILED
    assert "model 'main' was compiled for h13, h14" in capsys.readouterr().err
    assert main(["compile", str(DIGITS), "--target", "h13,h14,h16", "-o", bundle]) == 0
    assert main(["run", bundle, "--device", "simulator:h16"]) == 0


def test_other_commands_read_such_a_bundle(tmp_path: Path, capsys: Capture) -> None:
    bundle = str(tmp_path / "d.ane")
    compiled(capsys, DIGITS, "--target", "all", "-o", bundle)
    assert main(["info", bundle]) == 0
    text = capsys.readouterr().out
    assert "targets     h13 (a14, m1), h14 (a15, m2)" in text
    assert text.count("  input   image          fp32") == 1
    assert [line for line in text.splitlines() if line.startswith("chip ")] == [f"chip        {name}" for name in EVERY]
    assert main(["info", bundle, "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["targets"] == [function["target"] for function in document["functions"]] == list(EVERY)
    assert main(["verify", bundle]) == 0
    assert capsys.readouterr().out.count("verified: 10 tasks") == len(EVERY)
    assert main(["dis", bundle]) == 0
    assert [line.split()[-1] for line in capsys.readouterr().out.splitlines() if line.startswith("openane 1 hwx")] == \
        list(EVERY)
    for arguments in (["dis", bundle, "-o", str(tmp_path / "d.ane.s")], ["diff", bundle, bundle]):
        assert main(arguments) != 0
        assert "found 6" in capsys.readouterr().err


def test_several_functions_have_a_row_each(tmp_path: Path, capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    from openane import importers

    whole = importers.load_graph

    def renamed(path: Path, shapes: Any = None, function: str | None = None, **more: Any) -> Graph:
        graph = whole(path, shapes, None, **more)
        return Graph(graph.inputs, graph.nodes, graph.outputs, function or graph.name, graph.metadata)

    monkeypatch.setattr(importers, "load_graph", renamed)
    options = ["--function", "one", "--function", "two", "--target", "m1,m4", "-o", tmp_path / "d.ane"]
    document = compiled(capsys, DIGITS, *options)
    assert document["columns"] == ["m1 one", "m1 two", "m4 one", "m4 two"]
    assert list(Model.load(tmp_path / "d.ane").targets["h16"].functions) == ["one", "two"]
    assert main(["run", str(tmp_path / "d.ane"), "--function", "two", "--device", "simulator:h16"]) == 0
