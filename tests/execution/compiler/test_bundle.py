"""Bundles on disk: saved whole or not at all, and damaged ones refused with a typed error."""

from __future__ import annotations

import errno
import json
import os
import random
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.host_operations import row_means
from support.sealing import reseal

import openane as ane
from openane.cli import main
from openane.compiler import Model, compile
from openane.formats.bundled import bundled_programs
from openane.graph import Graph
from openane.ops.build import GraphBuilder

VALUES = [None, 0, -1, 2 ** 40, 2 ** 70, "", "y", [], {}, 1.5, float("inf"), float("nan"), True, [1, 2, 3], "main"]
ROUNDS = 150


def network(scale: float = 1.0) -> Graph:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (4, 16))
    rows = row_means(builder, builder.single("tanh", x=x), "rows")
    weight = (np.eye(16) * scale).astype(np.float16)
    return builder.finish({"y": builder.single("linear", "y", x=builder.single("add", x=x, y=rows), weight=weight)})


@pytest.fixture
def bundle(tmp_path: Path) -> Path:
    compile(network(), allow_host=True).save(tmp_path / "m.ane")
    return tmp_path / "m.ane"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_save_that_fails_leaves_what_was_there(bundle: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = contents(bundle)
    other = compile(network(2.0), allow_host=True)
    rename = os.rename

    def full(source: Any, target: Any) -> None:
        if Path(target) == bundle and Path(source).name.startswith(".") and (Path(source) / "manifest.json").exists() \
                and contents(Path(source)) != before:
            raise OSError(errno.ENOSPC, "no space left on device")
        rename(source, target)

    monkeypatch.setattr(os, "rename", full)
    with pytest.raises(OSError, match="no space left"):
        other.save(bundle)
    monkeypatch.undo()
    assert contents(bundle) == before
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]
    other.save(bundle)
    assert contents(bundle) != before
    assert [path.name for path in bundle.parent.iterdir()] == [bundle.name]


def test_other_peoples_folders_are_not_replaced(bundle: Path, tmp_path: Path) -> None:
    model = Model.load(bundle)
    (bundle / "notes.txt").write_text("mine")
    with pytest.raises(ane.GraphError, match="a folder of its own"):
        model.save(bundle)
    (bundle / "notes.txt").unlink()
    (bundle / ".DS_Store").write_text("")
    model.save(bundle)
    (tmp_path / "empty.ane").mkdir()
    model.save(tmp_path / "empty.ane")
    assert contents(tmp_path / "empty.ane") == contents(bundle)


def places(document: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    if isinstance(document, dict | list):
        for key, value in document.items() if isinstance(document, dict) else enumerate(document):
            yield from places(value, (*path, key))


def changed(document: Any, rng: random.Random) -> Any:
    """The document with one value replaced or taken away."""
    path = rng.choice([path for path in places(document) if path])
    inner = document
    for key in path[:-1]:
        inner = inner[key]
    if rng.random() < 0.2 and isinstance(inner, dict):
        del inner[path[-1]]
    else:
        inner[path[-1]] = rng.choice(VALUES)
    return document


def test_changed_manifests_raise_nothing_but_typed_errors(bundle: Path) -> None:
    manifest = bundle / "manifest.json"
    text = manifest.read_text()
    rng = random.Random(0)
    refused = 0
    for _ in range(ROUNDS):
        manifest.write_text(json.dumps(changed(json.loads(text), rng)))
        reseal(bundle)
        try:
            model = Model.load(bundle)
            ane.run(model, {port.name: np.zeros((4, 16), np.float16) for port in model.inputs})
            assert model.graph.outputs
        except ane.AneError:
            refused += 1
    assert refused > ROUNDS // 4


@pytest.mark.parametrize("name", ["manifest.json", "programs/0.hwx", "model.mil"])
def test_cut_and_missing_files_are_named(name: str, bundle: Path) -> None:
    data = (bundle / name).read_bytes()
    (bundle / name).write_bytes(data[:len(data) // 2])
    with pytest.raises(ane.FormatError, match=f"{name} was changed"):
        assert Model.load(bundle).graph
    reseal(bundle)
    with pytest.raises(ane.AneError):
        assert Model.load(bundle).graph
    (bundle / name).unlink()
    with pytest.raises(ane.FormatError, match=f"{name} cannot be read"):
        Model.load(bundle)


def test_every_changed_byte_of_a_bundle_is_noticed_before_it_is_used(bundle: Path) -> None:
    """Whatever reads it: the model, its graph, its programs by themselves."""
    rng = random.Random(1)
    names = sorted(contents(bundle))
    assert {"manifest.json", "model.mil", "routes.json", "seal.json", "weights/weight.bin"} < set(names)
    for number in range(60):
        name = names[number % len(names)]
        data = (bundle / name).read_bytes()
        place = rng.randrange(len(data))
        (bundle / name).write_bytes(data[:place] + bytes([data[place] ^ 1 << rng.randrange(8)]) + data[place + 1:])
        with pytest.raises(ane.FormatError, match=f"{name} was changed"):
            assert Model.load(bundle).graph
        if name in ("seal.json", "programs/0.hwx"):
            with pytest.raises(ane.FormatError, match=f"{name} was changed"):
                list(bundled_programs(bundle))
        (bundle / name).write_bytes(data)
    assert Model.load(bundle).graph


def test_a_bundle_without_its_digests_is_refused(bundle: Path) -> None:
    (bundle / "seal.json").unlink()
    for read in (Model.load, lambda path: list(bundled_programs(path))):
        with pytest.raises(ane.FormatError, match=r"seal\.json cannot be read.*compile the model again"):
            read(bundle)


def test_the_digest_of_a_bundle_is_said_and_asked_for(bundle: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["info", str(bundle), "--json"]) == 0
    digest = json.loads(capsys.readouterr().out)["digest"]
    assert main(["verify", str(bundle), "--digest", digest.upper()]) == 0
    assert f"6 files as written, digest {digest}" in capsys.readouterr().out
    assert main(["verify", str(bundle), "--digest", "0" * 64]) == 1
    assert "is not what was asked for" in capsys.readouterr().err
    assert main(["verify", str(bundle), "--digest", "0"]) == 2
    compile(network(2.0), allow_host=True).save(bundle)
    assert main(["verify", str(bundle), "--digest", digest]) == 1
    program = bundle / "programs" / "0.hwx"
    assert main(["verify", str(program), "--digest", sha256(program.read_bytes()).hexdigest()]) == 0
    assert main(["verify", str(program), "--digest", digest]) == 1
