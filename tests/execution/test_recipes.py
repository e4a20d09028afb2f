"""Each recipe of CONTRIBUTING.md, followed to the letter in a copy of the package, adds what it says it adds."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from support.recipes import PATH, ROOT, TEXT, Change, Copy, apply, read_recipes

RECIPES = read_recipes()
FUNCTION, OPERATION, OPERATOR, CHIP, GENERATION, DEVICE, PROBE = RECIPES
DIGITS = "examples/digits/digits.onnx"
ULP = 2.0 ** -11
MIL = """program(1.3)
{{
    func main<ios16>({ports}) {{
        {result} y = {call}[name = string("y")];
    }} -> (y);
}}
"""


@pytest.fixture
def follow(tmp_path: Path) -> Callable[[str], Copy]:
    """Follows a recipe in a copy."""
    return lambda name: Copy(tmp_path, RECIPES[name])


def results(copy: Copy, model: str, inputs: dict[str, np.ndarray]) -> np.ndarray:
    """The output y of a model that runs on the engine alone, by `ane run`."""
    for name, array in inputs.items():
        np.save(copy.folder / f"{name}.npy", array)
    given = " ".join(f"--input {name}={name}.npy" for name in inputs)
    document = json.loads(copy.ane(f"ane run {model} {given} --output-dir results --json"))
    assert document["engine_operations"] > 0
    assert document["host_operations"] == 0
    return np.load(copy.folder / document["outputs"]["y"]["file"]).astype(np.float64)


def test_a_function(follow: Callable[[str], Copy]) -> None:
    """On every fp16 number."""
    copy = follow(FUNCTION)
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    x = halves[np.isfinite(halves)].reshape(1, 1, 248, 256)
    (copy.folder / "function.mil").write_text(MIL.format(
        ports="tensor<fp16, [1, 1, 248, 256]> x", result="tensor<fp16, [1, 1, 248, 256]>", call="log_sigmoid(x = x)"))
    wanted = -np.logaddexp(0, -x.astype(np.float64))
    error = np.abs(results(copy, "function.mil", {"x": x}) - wanted)
    assert (error <= 7e-3 + ULP * np.abs(wanted)).all()
    assert "gradient: rule" in copy.ane(*RECIPES[FUNCTION].commands)
    listed = json.loads(copy.ane("ane ops --json"))
    assert "log_sigmoid" in [document["operation"] for document in listed]


def test_an_operation(follow: Callable[[str], Copy]) -> None:
    copy = follow(OPERATION)
    x, y = (np.random.default_rng(seed).standard_normal((3, 40, 5)).astype(np.float16) for seed in (1, 2))
    (copy.folder / "operation.mil").write_text(MIL.format(
        ports="tensor<fp16, [3, 40, 5]> x, tensor<fp16, [3, 40, 5]> y_in", result="tensor<fp16, [3, 5]>",
        call="cosine_similarity(x = x, y = y_in, axis = int32(1))"))
    found = results(copy, "operation.mil", {"x": x, "y_in": y})
    x, y = x.astype(np.float64), y.astype(np.float64)
    wanted = (x * y).sum(1) / np.sqrt((x * x).sum(1) * (y * y).sum(1))
    np.testing.assert_allclose(found, wanted, atol=4e-3)
    assert "gradient: of its parts" in copy.ane(*RECIPES[OPERATION].commands)


def test_an_operator(follow: Callable[[str], Copy]) -> None:
    copy = follow(OPERATOR)
    ports = [helper.make_tensor_value_info(name, TensorProto.FLOAT16, shape)
             for name, shape in (("x", (3, 5, 2, 2)), ("y", (3, 5)))]
    graph = helper.make_graph([helper.make_node("Det", ["x"], ["y"])], "determinants", ports[:1], ports[1:])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)]), copy.folder / "model.onnx")
    x = np.random.default_rng(3).standard_normal((3, 5, 2, 2)).astype(np.float16)
    np.testing.assert_allclose(results(copy, "model.onnx", {"x": x}), np.linalg.det(x.astype(np.float64)), atol=4e-3)
    assert "y against the reference" in copy.ane(*RECIPES[OPERATOR].commands)


def test_a_chip(follow: Callable[[str], Copy]) -> None:
    copy = follow(CHIP)
    shown, *_, profile = map(copy.ane, RECIPES[CHIP].commands)
    assert re.search(r"^machines +Example Mini 2030$", shown, re.MULTILINE)
    assert profile.startswith("main on x1 (h13, full clock)")
    made = (copy.folder / "digits.hwx").read_bytes()
    copy.ane(f"ane compile {DIGITS} --target h13 -o h13.hwx")
    assert made == (copy.folder / "h13.hwx").read_bytes()


def test_a_device(follow: Callable[[str], Copy]) -> None:
    listed, run = map(follow(DEVICE).ane, RECIPES[DEVICE].commands)
    assert re.search(r"^example +any +simulated +an example, simulated$", listed, re.MULTILINE)
    assert "10 tasks on example" in run
    assert "probabilities against the reference" in run


def test_a_probe(follow: Callable[[str], Copy]) -> None:
    shown, = map(follow(PROBE).ane, RECIPES[PROBE].commands)
    rows = [line for line in shown.splitlines() if line.startswith("copy ")]
    assert len(rows) == 1
    assert re.fullmatch(r"copy +relu of 16 planes of 64x64 +[\d.e+]+ +[\d.e+]+ +[\d.e+]+ +GB/s", rows[0])


def test_a_generation_is_made_of_the_files_that_are_named() -> None:
    """That they suffice is what test_toy_generation shows."""
    named = set(re.findall(r"`(\w+\.py)`", RECIPES[GENERATION].text))
    chips, toy = ROOT / "src" / "openane" / "chips", ROOT / "tests" / "support" / "toy_generation" / "h40"
    assert named == {path.name for path in (chips / "h13").glob("*.py")}
    assert {path.name for path in toy.glob("*.py")} <= named


def test_every_path_that_is_named_is_there() -> None:
    made = {path for recipe in RECIPES.values() for path in recipe.new_files()}
    assert {path for path in PATH.findall(TEXT) if not (ROOT / path).exists()} == made


@pytest.mark.parametrize("name", [name for name, recipe in RECIPES.items() if recipe.new_files()])
def test_what_is_written_keeps_the_rules(name: str, follow: Callable[[str], Copy]) -> None:
    copy = follow(name)
    (copy.folder / "pyproject.toml").write_bytes((ROOT / "pyproject.toml").read_bytes())
    result = subprocess.run([sys.executable, "-m", "ruff", "check", "--no-cache", *RECIPES[name].new_files()],
                            cwd=copy.folder, capture_output=True, text=True, check=False)
    assert result.returncode == 0, result.stdout


def test_an_edit_that_does_not_fit_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("one\ntwo\ntwo\n")
    with pytest.raises(AssertionError, match=r"file\.py has 0 times"):
        apply((Change("file.py", "diff", " three\n+four\n"),), tmp_path)
    with pytest.raises(AssertionError, match=r"file\.py has 2 times"):
        apply((Change("file.py", "diff", "-two\n+three\n"),), tmp_path)
    with pytest.raises(AssertionError, match=r"file\.py is there already"):
        apply((Change("file.py", "python", "one\n"),), tmp_path)
    apply((Change("file.py", "diff", " one\n+half\n two\n@@\n-two\n-two\n+three\n"),), tmp_path)
