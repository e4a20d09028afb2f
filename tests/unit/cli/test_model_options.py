"""Commands that take a model take the same options, with the same words."""

from __future__ import annotations

from argparse import ArgumentParser, ArgumentTypeError
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import openane as ane
from openane.cli import FAILED, VERBS, main
from openane.cli.files import parse_value
from openane.cli.model_options import OPTIONS, TARGETS
from openane.importers import write_mlpackage
from openane.ops.build import GraphBuilder

TAKES = {**{verb: set(OPTIONS) for verb in ("compile", "run", "profile", "explain")},
         **{verb: {"--shape", "--value", "--limit"} for verb in ("info", "convert")},
         "quantize": set(OPTIONS) - {"--pad", "--precision", "--optimise"},
         "check": set(OPTIONS) - {"--pad", "--no-cache", "--optimise"},
         "generate": {"--target", "--no-cache"}, "serve": {"--target", "--no-cache"},
         "transcribe": {"--target", "--no-cache"}}
"""Verbs that take models to their options. `info` compiles nothing, `quantize` takes one shape; language models state
their own shapes, need no host and are looked at nowhere."""
Capture = pytest.CaptureFixture[str]


def parser(verb: str) -> ArgumentParser:
    made = ArgumentParser(prog=verb)
    import_module(f"openane.cli.{verb}").arguments(made)
    return made


@pytest.mark.parametrize("verb", [verb for verb in VERBS if verb != "ops"])  # lists operations for a target
def test_options_of_models_are_the_same_everywhere(verb: str) -> None:
    plain = ArgumentParser()
    import_module("openane.cli.model_options").model_options(plain)
    known = {name: action for action in plain._actions for name in action.option_strings}
    found = {name: action for action in parser(verb)._actions for name in action.option_strings if name in OPTIONS}
    assert set(found) == TAKES.get(verb, set())
    if verb == "compile":  # it alone takes several targets, and says so
        assert found["--target"].help == TARGETS["help"]
        found["--target"].help = known["--target"].help
    for name, action in found.items():
        for what in ("help", "metavar", "dest", "default", "type", "nargs", "const", "choices", "required"):
            assert getattr(action, what) == getattr(known[name], what), f"{verb} {name}: {what}"


def test_every_verb_that_takes_a_model_is_known() -> None:
    """Models are called so in the help of what the command takes."""
    assert {"--shape", "--target", "--sample", "--allow-host"} <= set(OPTIONS)
    takers = {verb for verb in VERBS for action in parser(verb)._actions
              if not action.option_strings and "model" in (action.help or "")}
    assert takers == set(TAKES) - {"transcribe"}  # whose argument is a sound


@pytest.fixture
def compiled(tmp_path: Path) -> Path:
    b = GraphBuilder()
    path = tmp_path / "m.ane"
    ane.compile(b.finish({"y": b.single("relu", x=b.input("x", "fp16", (4, 64)))})).save(path)
    return path


def test_samples_are_single_arrays_archives_or_folders(tmp_path: Path, capsys: Capture) -> None:
    """Of numbers that leave fp16 the compiler warns, whichever file they are in."""
    b = GraphBuilder()
    write_mlpackage(b.finish({"y": b.single("square", x=b.input("x", "fp16", (1, 8)))}), tmp_path / "m.mlpackage")
    large = np.full((1, 8), 300, np.float16)
    np.savez(tmp_path / "all.npz", x=large)
    (tmp_path / "folder").mkdir()
    np.save(tmp_path / "folder" / "x.npy", large)
    for sample in (f"x={tmp_path}/folder/x.npy", f"{tmp_path}/all.npz", f"{tmp_path}/folder"):
        assert main(["compile", str(tmp_path / "m.mlpackage"), "-o", str(tmp_path / "m.ane"), "--sample", sample,
                     "--no-cache"]) == 0
        assert "results become infinite in fp16" in capsys.readouterr().err
    assert main(["compile", str(tmp_path / "m.mlpackage"), "-o", str(tmp_path / "m.ane"), "--sample",
                 str(tmp_path / "m.mlpackage")]) == FAILED
    assert "holds no samples" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["run", "profile", "explain"])
@pytest.mark.parametrize("option", [("--target", "m4"), ("--shape", "x=4x64"), ("--sample", "x=x.npy")])
def test_options_that_compile_are_refused_for_what_is_compiled(verb: str, option: tuple[str, str], compiled: Path,
                                                               capsys: Capture) -> None:
    assert main([verb, str(compiled), *option]) == FAILED
    text = capsys.readouterr().err
    assert "is compiled already" in text
    assert f"hint: compile its model with {option[0]}" in text


def test_a_target_that_is_its_own_is_accepted(compiled: Path) -> None:
    assert main(["run", str(compiled), "--target", "m1", "--allow-host"]) == 0


def test_info_takes_no_shape_for_what_is_compiled(compiled: Path, capsys: Capture) -> None:
    assert main(["info", str(compiled), "--shape", "x=4x64"]) == FAILED
    assert "is compiled already" in capsys.readouterr().err


@pytest.mark.parametrize(("text", "wanted"), [("sr=16000", 16000), ("a=b=0.5", 0.5), ("s=0.7,1,2e-1", [0.7, 1, 0.2])])
def test_values_of_inputs(text: str, wanted: float | list[float]) -> None:
    assert parse_value(text) == (text.rpartition("=")[0], wanted)


@pytest.mark.parametrize("text", ["sr", "=1", "sr=", "sr=high", "sr=1,"])
def test_what_is_no_value(text: str) -> None:
    with pytest.raises(ArgumentTypeError, match="sr=16000"):
        parse_value(text)
