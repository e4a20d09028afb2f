"""Compiled models from the cache are what compiling again gives, also when compilers are killed beside each other."""

from __future__ import annotations

import os
import random
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from support.killing import run_and_kill

import openane as ane
from openane.cache import RECORD, SIZE_LIMIT, Cache
from openane.cli import main
from openane.compiler import Model, compile, pipeline
from openane.compiler.artifact.cache_program import read_cached, write_cached
from openane.compiler.cache import MappedModels, model_key
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.program.verify import verify

MODEL = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
ROUNDS = int(os.environ.get("OPENANE_CACHE_ROUNDS", "4"))
"""Kills in the test of killed compilers; 100 take about two minutes."""


def network(scale: float = 1.0, name: str = "main") -> Graph:
    builder = GraphBuilder(name)
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    weight = (np.random.default_rng(0).uniform(-0.3, 0.3, (8, 8, 3, 3)) * scale).astype(np.float16)
    value = builder.single("relu", x=builder.single("conv", x=x, weight=weight, pad_type="same"))
    host = builder.single("local_response_norm", x=value, size=2)
    return builder.finish({"y": builder.single("add", x=value, y=host)})


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of graphs that were really compiled."""
    made: list[str] = []
    plan = pipeline.best_plan
    monkeypatch.setattr(pipeline, "best_plan", lambda graph, *rest: made.append(graph.name) or plan(graph, *rest))
    return made


def same(first: Model, second: Model) -> None:
    assert (first.programs, first.report, first.inputs, first.outputs) == \
        (second.programs, second.report, second.inputs, second.outputs)
    x = np.random.default_rng(1).uniform(-1, 1, (1, 8, 6, 6)).astype(np.float16)
    np.testing.assert_array_equal(ane.run(first, {"x": x})["y"], ane.run(second, {"x": x})["y"])


def test_a_model_is_compiled_once(tmp_path: Path, compilations: list[str]) -> None:
    first = compile(network(), allow_host=True, cache=tmp_path)
    graph = network()
    second = compile(graph, allow_host=True, cache=str(tmp_path))
    assert compilations == ["main"]
    assert second.graph.nodes is graph.nodes
    assert second.graph.metadata == first.graph.metadata != graph.metadata  # says how large inputs were
    same(first, second)
    second.save(tmp_path / "m.ane")
    same(first, Model.load(tmp_path / "m.ane"))


def test_kept_programs_are_read_back_and_nothing_else_is() -> None:
    program = compile(network(), allow_host=True).programs[0]
    data = write_cached(program)
    assert read_cached(data) == program
    for wrong in (b"", b"{}\n", b"\n", data[:40], b"[]\n" + data):
        with pytest.raises(ane.FormatError, match="no kept program"):
            read_cached(wrong)


def test_what_the_model_depends_on_is_in_its_key() -> None:
    graph = network()
    keys = {model_key(graph, "h13", True), model_key(graph, "h13", False), model_key(graph, "h14", True),
            model_key(network(1.01), "h13", True), model_key(network(name="other"), "h13", True),
            model_key(graph, "h13", True, {"x": np.zeros((1, 8, 6, 6))})}
    assert len(keys) == 6
    assert model_key(network(), "h13", True) in keys


def test_a_changed_compiler_compiles_again(monkeypatch: pytest.MonkeyPatch) -> None:
    before = model_key(network(), "h13", False)
    monkeypatch.setattr("openane.compiler.cache.compiler_digest", lambda: "another")
    assert model_key(network(), "h13", False) != before


def test_entries_that_are_no_models_are_replaced(tmp_path: Path, compilations: list[str]) -> None:
    key = model_key(network(), "h13", True)
    for files in ({}, {"manifest.json": b"{}"}, {"manifest.json": b'{"version": 2, "programs": 1, "functions": []}'}):
        Cache(tmp_path).drop(key)
        Cache(tmp_path).put(key, files)
        compile(network(), allow_host=True, cache=tmp_path)
    assert len(compilations) == 3
    compile(network(), allow_host=True, cache=tmp_path)
    assert len(compilations) == 3


def engine_network() -> Graph:
    builder = GraphBuilder("main")
    x = builder.input("x", "fp16", (1, 8, 6, 6))
    weight = np.random.default_rng(0).uniform(-0.3, 0.3, (8, 8, 3, 3)).astype(np.float16)
    return builder.finish({"y": builder.single("conv", x=x, weight=weight, pad_type="same")})


def test_constants_are_mapped_from_the_cache(tmp_path: Path, compilations: list[str]) -> None:
    plain = compile(engine_network())
    first, second = (Model.of(MappedModels(tmp_path).compile(engine_network(), "h13")) for _ in range(2))
    assert compilations == ["main", "main"]  # by compile, and the first time by the cache
    for model in (first, second):
        assert isinstance(model.program.constants, memoryview)
        assert model.program.constants.readonly
        same(plain, model)
    Cache(tmp_path).clear()
    same(plain, second)  # what was mapped stays
    with pytest.raises(ane.AneError):
        second.patch({"weight": np.zeros((8, 8, 3, 3), np.float16)})
    second.save(tmp_path / "m.hwx")
    assert ane.load_program(tmp_path / "m.hwx").constants == plain.program.constants


def test_damaged_constants_are_compiled_again(tmp_path: Path, compilations: list[str]) -> None:
    MappedModels(tmp_path).compile(engine_network(), "h13")
    file = next(tmp_path.glob("*/constants/0"))
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    model = MappedModels(tmp_path).compile(engine_network(), "h13")
    assert len(compilations) == 2
    same(compile(engine_network()), model)


def test_models_that_are_not_to_be_kept_lie_in_a_folder_that_goes(tmp_path: Path, compilations: list[str],
                                                                    monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    models = MappedModels(False)
    model = models.compile(engine_network(), "h13")
    folder, = tmp_path.iterdir()
    assert list(folder.iterdir()) == []  # a killed process leaves no weights behind
    models.close()
    models.close()
    assert list(tmp_path.iterdir()) == []
    same(compile(engine_network()), model)
    (tmp_path / "file").write_bytes(b"")
    held = MappedModels(tmp_path / "file").compile(engine_network(), "h13")  # nothing can be written there
    assert isinstance(held.program.constants, bytes)
    same(held, model)
    large = MappedModels(tmp_path / "kept", SIZE_LIMIT)
    large.compile(engine_network(), "h13")
    assert not (tmp_path / "kept").exists()
    large.close()


def test_only_bytes_that_nobody_writes_are_verified() -> None:
    program = compile(engine_network()).program
    verify(replace(program, constants=memoryview(program.constants)))
    for wrong in (bytearray(program.constants), memoryview(bytearray(program.constants)),
                  memoryview(program.constants).cast("H"), np.frombuffer(program.constants, np.uint8)):
        with pytest.raises(ane.VerifyError, match="nobody can write"):
            verify(replace(program, constants=wrong))  # type: ignore[arg-type]


def test_without_a_usable_folder_it_compiles_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_bytes(b"")
    compile(network(), allow_host=True, cache=tmp_path / "file")
    for name in ("ANE_CACHE", "XDG_CACHE_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    compile(network(), allow_host=True, cache=True)


def test_the_command_line_keeps_models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, compilations: list[str],
                                       capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("ANE_CACHE", str(tmp_path / "cache"))
    for _ in range(2):
        assert main(["run", str(MODEL)]) == 0
        assert main(["compile", str(MODEL), "-o", str(tmp_path / "m.ane")]) == 0
    assert len(compilations) == 1  # both look for numbers that leave fp16
    assert main(["run", str(MODEL), "--no-cache"]) == 0
    assert len(compilations) == 2
    assert main(["cache", "--json"]) == 0
    assert capsys.readouterr().out.count('"label": "main for h13"') == 1


COMPILER = """
import sys
sys.path.insert(0, sys.argv[3])
from test_compile_cache import network
from openane.cache import Cache
from openane.compiler import compile
from openane.compiler.cache import model_key
graph, cache = network(), Cache(__import__("pathlib").Path(sys.argv[1]))
wanted = compile(graph, allow_host=True)
print("ready", flush=True)
while True:
    found = compile(graph, allow_host=True, cache=sys.argv[1])
    if (found.programs, found.report) != (wanted.programs, wanted.report):
        sys.exit(7)
    if sys.argv[2] == "drops":
        cache.drop(model_key(graph, "h13", True))
"""


def test_two_processes_compiling_one_model_with_kills_in_between(tmp_path: Path) -> None:
    rng = random.Random(0)
    cache, key = Cache(tmp_path), model_key(network(), "h13", True)
    found = 0
    for _ in range(ROUNDS):
        run_and_kill([[sys.executable, "-c", COMPILER, str(tmp_path), what, str(Path(__file__).parent)]
                      for what in ("drops", "keeps")], rng, 0.4,
                     "a compiler was given another model than it asked for")
        kept = (tmp_path / key / RECORD).exists() or (tmp_path / key).exists()
        entry = cache.get(key)
        assert not kept or entry is not None, "a torn entry lay under its name"
        found += entry is not None
    assert found, "no entry was ever complete: the kills prove nothing"
