"""`ane compile` and `ane run` on a real model: the digit classifier of the examples."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.cli import FAILED, USAGE, main

MODEL = Path(__file__).parents[3] / "examples" / "digits" / "digits.onnx"
Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("input") / "image.npy"
    np.save(file, np.random.default_rng(3).random((1, 1, 8, 8), np.float32))
    return file


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("compiled")
    files = {name: folder / f"digits.{name}" for name in ("hwx", "anec", "ane")}
    for file in files.values():
        assert main(["compile", str(MODEL), "-o", str(file)]) == 0
    return files


def run(capsys: Capture, *arguments: str | Path) -> dict[str, Any]:
    assert main(["run", *map(str, arguments), "--json"]) == 0
    document: dict[str, Any] = json.loads(capsys.readouterr().out)
    return document


def test_the_whole_model_is_one_program_without_host_operations(tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", str(MODEL), "-o", str(tmp_path / "x.hwx"), "--json", "--dump", str(tmp_path / "dump")]) == 0
    captured = capsys.readouterr()
    document = json.loads(captured.out)
    assert not captured.err
    assert document["host_operations"] == 0
    assert {entry["where"] for entry in document["operations"]} <= {"engine", "fused", "free", "folded", "port"}
    assert document["tasks"] == len(ane.load_program(tmp_path / "x.hwx").tasks)
    names = sorted(file.name for file in (tmp_path / "dump").iterdir())
    assert names[0] == "00-source.mil"
    assert {"30-lowered.txt", "31-resident.txt", "32-placement.txt", "33-tiling.txt", "34-weights.txt",
            "40-program0.ane.s", "weights"} <= set(names)
    assert {name.split("-", 1)[1] for name in names if name.endswith(".mil")} >= {"fold-constants.mil",
                                                                                 "remove-dead-code.mil"}


def test_a_dumped_model_compiles_to_the_same_program(tmp_path: Path) -> None:
    assert main(["compile", str(MODEL), "-o", str(tmp_path / "a.hwx"), "--dump", str(tmp_path)]) == 0
    assert main(["compile", str(tmp_path / "00-source.mil"), "-o", str(tmp_path / "b.hwx")]) == 0
    assert (tmp_path / "a.hwx").read_bytes() == (tmp_path / "b.hwx").read_bytes()


def test_a_model_and_its_compiled_files_give_the_same_outputs(compiled: dict[str, Path], image: Path, tmp_path: Path,
                                                              capsys: Capture) -> None:
    results = {}
    for name, file in {"onnx": MODEL, **compiled}.items():
        port = "input0" if name == "anec" else "image"  # ANEC files keep no names
        document = run(capsys, file, "--input", f"{port}={image}", "--output-dir", tmp_path / name)
        results[name] = np.load(next(iter(document["outputs"].values()))["file"])
        assert document["tasks"] > 1
        assert document["host_operations"] == 0
        assert document["numeric"]["overflows"] == 0
    for name, result in results.items():
        np.testing.assert_array_equal(result.reshape(-1), results["onnx"].reshape(-1), err_msg=name)
    assert results["ane"].shape == (1, 10)
    assert results["ane"].sum() == pytest.approx(1, abs=5e-3)


@pytest.mark.parametrize("kind", ["onnx", "ane"])
def test_check_measures_the_error_against_the_reference(kind: str, compiled: dict[str, Path], image: Path,
                                                        capsys: Capture) -> None:
    file = MODEL if kind == "onnx" else compiled[kind]
    error = run(capsys, file, "--input", f"image={image}", "--check")["outputs"]["probabilities"]["error"]
    assert error["max_abs"] < 5e-3
    assert error["l2_rel"] < 1e-2
    assert main(["run", str(file), "--check"]) == 0
    assert "against the reference" in capsys.readouterr().out


def test_seeds_draw_inputs(compiled: dict[str, Path], capsys: Capture) -> None:
    outputs = [run(capsys, compiled["hwx"], "--seed", seed)["outputs"]["probabilities"] for seed in ("1", "1", "2")]
    assert outputs[0] == outputs[1] != outputs[2]


def test_arithmetic_is_chosen_and_reported(compiled: dict[str, Path], capsys: Capture) -> None:
    for name in ("exact", "fast"):
        document = run(capsys, compiled["hwx"], "--arithmetic", name)
        assert document["numeric"]["arithmetic"] == [name]
        assert document["device"] == f"simulator?arithmetic={name}"


def test_refusals_teach(compiled: dict[str, Path], image: Path, tmp_path: Path, capsys: Capture) -> None:
    np.save(tmp_path / "wide.npy", np.zeros((1, 1, 8, 9), np.float32))
    for arguments, words in [
        ([compiled["hwx"], "--check"], ["does not hold the model", "hint: ", ".ane"]),
        ([compiled["hwx"], "--input", f"picture={image}"], ["picture", "image"]),
        ([MODEL, "--input", f"image={tmp_path / 'wide.npy'}"], ["[1, 1, 8, 8]", "[1, 1, 8, 9]"]),
        ([MODEL, "--input", f"image={tmp_path / 'absent.npy'}"], ["absent.npy", "No such file"]),
        ([MODEL, "--device", "abacus"], ["abacus", "simulator"]),
        ([MODEL, "--target", "h99"], ["h99", "h11 to h18", "a12 to a19", "ane chips"]),
    ]:
        assert main(["run", *map(str, arguments)]) == FAILED
        captured = capsys.readouterr()
        assert captured.err.startswith("ane: error: ")
        assert all(word in captured.err for word in words), captured.err
    assert main(["run", str(MODEL), "--input", "image"]) == USAGE
    assert main(["compile", str(MODEL), "-o", str(tmp_path / "absent" / "x.hwx")]) == FAILED
    assert f"{tmp_path / 'absent'}: there is no such folder" in capsys.readouterr().err


def test_info_describes_models_and_bundles(compiled: dict[str, Path], capsys: Capture) -> None:
    assert main(["info", str(MODEL), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["kind"] == "model"
    assert document["operations"]["conv"] == 2
    assert [(port["dtype"], port["shape"]) for port in document["inputs"]] == [("fp32", [1, 1, 8, 8])]
    assert main(["info", str(compiled["ane"])]) == 0
    assert "2 Reduction" in capsys.readouterr().out
    assert main(["dis", str(MODEL)]) == FAILED
    assert "compiled first: ane compile" in capsys.readouterr().err
    assert main(["compile", str(compiled["hwx"]), "-o", "again.hwx"]) == FAILED
    assert "compiled already" in capsys.readouterr().err
    for name in ("ane", "hwx"):
        assert main(["dis", str(compiled[name])]) == 0
    assert capsys.readouterr().out.count("program main") == 2


@pytest.mark.parametrize(("name", "options"), [("c.hwx", ["--layout", "compat"]), ("c.anec", ["--header", "0x800"])])
def test_other_forms_of_a_file_hold_the_same_computation(name: str, options: list[str], compiled: dict[str, Path],
                                                         image: Path, tmp_path: Path, capsys: Capture) -> None:
    assert main(["compile", str(MODEL), "-o", str(tmp_path / name), *options]) == 0
    capsys.readouterr()
    plain, other = compiled[Path(name).suffix[1:]], tmp_path / name
    assert plain.read_bytes() != other.read_bytes()
    outputs = []
    for number, file in enumerate((plain, other)):
        port = ane.load_program(file).inputs[0].name
        folder = tmp_path / str(number)
        document = run(capsys, file, "--input", f"{port}={image}", "--output-dir", folder)
        outputs.append(np.load(next(iter(document["outputs"].values()))["file"]))
    np.testing.assert_array_equal(*outputs)
