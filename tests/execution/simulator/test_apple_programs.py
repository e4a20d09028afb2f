"""Programs Apple's compiler made, run from their words, compute what their names say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import erf
from pathlib import Path

import numpy as np
import pytest
from support.h13 import FORMAT, table_bytes
from support.needs import corpus_file

from openane.devices import open_device, run
from openane.formats import load_program
from openane.program import Program
from openane.program.patch import edit_task
from openane.simulator import load

Reference = Callable[..., np.ndarray]
SHAPE = (1, 1, 2560, 1600)
HALF_UNIT = 4.9e-4  # one fp16 rounding, relative


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def slope(low: float) -> Reference:
    return lambda x: np.where(x < 0, float(np.float16(low)) * x, x)


def gelu(x: np.ndarray) -> np.ndarray:
    every, places = np.unique(x, return_inverse=True)
    return np.array([0.5 * v * (1 + erf(v / 2**0.5)) for v in every])[places].reshape(x.shape)


# name: reference, positive inputs only, largest absolute error, largest error relative to max(|reference|, 1e-3)
CASES: dict[str, tuple[Reference, bool, float, float]] = {
    "abs": (np.abs, False, 0, 0),
    "sign": (np.sign, False, 0, 0),
    "relu": (lambda x: np.maximum(x, 0), False, 0, 0),
    "relu6": (lambda x: np.clip(x, 0, 6), False, 0, 0),
    "max": (np.maximum, False, 0, 0),
    "min": (np.minimum, False, 0, 0),
    "frac": (lambda floor, x: x - np.sign(x) * floor, False, 0, 0),
    "add": (np.add, False, np.inf, HALF_UNIT),
    "sub": (np.subtract, False, np.inf, HALF_UNIT),
    "mul": (np.multiply, False, np.inf, HALF_UNIT),
    "square": (np.square, False, np.inf, HALF_UNIT),
    "leakyrelu": (slope(0.01), False, np.inf, 7e-4),
    "rrelu": (slope(0.2291), False, np.inf, 7e-4),
    "exp": (np.exp, False, np.inf, 2.9e-3),
    "exp2": (np.exp2, False, np.inf, 8.8e-4),
    "log": (np.log, True, 1.3e-2, 1.5e-2),
    "log2": (np.log2, True, 8e-3, 1.5e-2),
    "sqrt": (np.sqrt, True, np.inf, 9.3e-4),
    "inv": (lambda x: 1 / (x + 1e-4), True, np.inf, 8.5e-4),
    "tanh": (np.tanh, False, 1.7e-3, 6e-3),
    "sigmoid": (lambda x: 1 / (1 + np.exp(-x)), False, 1.1e-3, np.inf),
    "gelu": (gelu, False, 6.3e-3, np.inf),
    "softmax": (softmax, False, 6e-4, 4.3e-3),
    "softmin": (lambda x: softmax(-x), False, 6e-4, 4.4e-3),
    "logsoftmax": (lambda x: np.maximum(np.log(softmax(x)), -8), False, 1.2e-2, np.inf),
    "hardtanh": (lambda x: np.clip(x, -1, 1), False, 0, 0),
    "ceil": (np.ceil, False, 0, 0),
    "cube": (lambda x: x ** 3, False, np.inf, 7.8e-4),
    "ave": (lambda x, y: (x + y) / 2, False, np.inf, HALF_UNIT),
    "div": (np.divide, True, np.inf, 1.3e-3),
    "rsqrt": (lambda x: 1 / np.sqrt(x + 1e-4), True, np.inf, 1.6e-3),
    "log10": (lambda x: np.log10(x), True, 5e-3, 1.5e-2),
    "silu": (lambda x: x / (1 + np.exp(-x)), False, 3.7e-3, np.inf),
    "selu": (lambda x: 1.0507 * np.where(x > 0, x, 1.67326 * np.expm1(np.minimum(x, 0))), False, 1.3e-2, np.inf),
    "atan": (np.arctan, False, 3.4e-2, np.inf),
    "norm": (lambda x: x / np.sqrt(np.square(x).sum(axis=-1, keepdims=True)), False, 1.2e-4, np.inf),
}


def draw(name: str, program: Program, positive: bool) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    inputs = {b.name: (rng.standard_normal(SHAPE, np.float32) * 2).astype(np.float16) for b in program.inputs}
    if positive:
        inputs = {key: np.maximum(np.abs(x), np.float16(1e-3)) for key, x in inputs.items()}
    if name == "frac":  # the program takes floor(|x|) and x, and brings the sign back
        inputs["input0"] = np.floor(np.abs(inputs["input1"]))
    return inputs


def apple(corpus: Path, name: str) -> Program:
    return load_program(corpus_file(corpus, f"apple/anec/{name}.anec"))


def test_programs_without_a_reference_run(corpus: Path) -> None:
    paths = sorted((corpus / "apple" / "anec").glob("*.anec"))
    assert len({path.stem for path in paths} & set(CASES)) >= 23
    for path in paths:
        if path.stem not in CASES:
            load(load_program(path)).run()


@pytest.mark.parametrize("name", CASES)
def test_it_computes_its_name(corpus: Path, name: str) -> None:
    reference, positive, absolute, relative = CASES[name]
    program = apple(corpus, name)
    inputs = draw(name, program, positive)
    outputs = run(program, inputs, "simulator:h13")
    (found,) = outputs.values()
    assert found.shape == SHAPE
    assert found.dtype == np.float16
    rows = slice(0, None, 16)
    expected = reference(*(inputs[b.name][..., rows, :].astype(np.float64) for b in program.inputs))
    found = found[..., rows, :].astype(np.float64)
    error = np.abs((np.maximum(found, -8) if name == "logsoftmax" else found) - expected)
    assert error.max() <= absolute
    assert (error / np.maximum(np.abs(expected), 1e-3)).max() <= relative


@pytest.mark.parametrize(("name", "task", "fields", "expected"), [
    ("exp2", 0, {"NE.PostScale.PostScale": 0.5}, lambda x: np.exp2(0.5 * x)),
    ("inv", 0, {"NE.AccBias.AccBias": 2.0}, lambda x: 1 / (x + 2)),
    ("log", 1, {"PE.BiasScale.Scale": 1.0}, np.log2),
    ("sigmoid", 1, {"PE.BiasScale.Bias": 0.0}, lambda x: 1 / (1 + np.exp(-x)) - 0.5),
    ("add", 0, {"PE.Cfg.OpMode": "max"}, np.maximum),
    ("sub", 0, {"PE.PreScale.PreScale": -2.0}, lambda x, y: x - 2 * y),
    ("abs", 0, {"PE.FinalScale.FinalScale": 1.0, "PE.Cfg.Abs": 0}, lambda x: x),
])
def test_one_field_changes_what_is_computed(corpus: Path, name: str, task: int, fields: dict[str, float | str],
                                            expected: Reference) -> None:
    program = apple(corpus, name)
    inputs = {k: np.abs(x) + np.float16(0.01) for k, x in draw(name, program, True).items()}
    found = run(edit_task(program, task, fields), inputs)["output0"][..., :64, :].astype(np.float64)
    wanted = expected(*(x[..., :64, :].astype(np.float64) for x in inputs.values()))
    np.testing.assert_allclose(found, wanted, rtol=1.5e-3, atol=4e-3)


def test_a_slope_of_a_table_is_a_slope_of_the_result(corpus: Path) -> None:
    program = apple(corpus, "leakyrelu")
    table = FORMAT.table.unpack(program.constants[:128])
    inputs = {"input0": -np.abs(draw("leakyrelu", program, False)["input0"])}
    steep = replace(program, constants=table_bytes(replace(table, low_slope=-0.5)) + program.constants[128:])
    wanted = -0.5 * inputs["input0"].astype(np.float32)
    np.testing.assert_allclose(run(steep, inputs)["output0"], wanted, rtol=0, atol=2.0 ** -25)


def test_a_stride_says_which_rows_are_read(corpus: Path) -> None:
    """With a source row stride of 64 bytes, row r of the result starts 32 r elements into the source."""
    program = apple(corpus, "abs")
    inputs = draw("abs", program, False)
    still = edit_task(program, 0, {"TileDMASrc.RowStride.Stride": 0x40}, checked=False)
    found = run(still, inputs)["output0"]
    whole = inputs["input0"].reshape(-1)
    for row in (0, 1, 7):
        np.testing.assert_array_equal(found[0, 0, row], np.abs(whole[32 * row:32 * row + 1600]))


@pytest.mark.parametrize("name", ["exp", "softmax", "inv"])
def test_the_constants_decide_the_result(corpus: Path, name: str) -> None:
    """A changed knot of an activation table changes the output where that knot is used, and nowhere else."""
    program = load_program(corpus / "apple" / "anec" / f"{name}.anec")
    knots = np.frombuffer(program.constants, np.float16).copy()
    knots[4 + 16] *= np.float16(1.25)
    inputs = draw(name, program, True)
    before, after = (run(p, inputs)["output0"] for p in (program, replace(program, constants=knots.tobytes())))
    changed = np.mean(before != after)
    assert 0.005 < changed < (1.01 if name == "softmax" else 0.25)


def test_one_program_many_runs(corpus: Path) -> None:
    program = load_program(corpus / "apple" / "anec" / "add.anec")
    with open_device("simulator") as device, device.load(program) as executable:
        for value in (1, 2):
            inputs = {b.name: np.full(SHAPE, value, np.float16) for b in program.inputs}
            assert (executable.run(inputs)["output0"] == 2 * value).all()
        assert [(t.low, t.high) for t in executable.report.tasks] == [(4, 4)]


@pytest.mark.parametrize("name", ["conv.hwx", "conv_golden.hwx", "conv.anec"])
def test_convolution_of_ones(corpus: Path, name: str) -> None:
    program = load_program(corpus / "apple" / "hwx" / name)
    (x,), (y,) = program.inputs, program.outputs
    outputs = run(program, {x.name: np.ones(x.layout.shape, np.float16)})  # type: ignore[union-attr]
    weights = np.frombuffer(program.constants, np.float16)
    assert len(set(outputs[y.name].reshape(-1).tolist())) == 1
    assert outputs[y.name].reshape(-1)[0] == pytest.approx(3 * float(weights[0]), rel=1e-3)


def test_every_hwx_file_loads_and_runs(corpus: Path) -> None:
    for path in sorted((corpus / "apple" / "hwx").iterdir()):
        load(load_program(path)).run()


def test_concat_and_binary_files(corpus: Path) -> None:
    rng = np.random.default_rng(0)
    for name in ("concat.hwx", "sum.hwx", "mul_v5.hwx", "mul_macos26.hwx", "mul_v5.anec"):
        program = load_program(corpus / "apple" / "hwx" / name)
        inputs = {b.name: rng.standard_normal(b.layout.shape).astype(np.float16)  # type: ignore[union-attr]
                  for b in program.inputs}
        (found,) = run(program, inputs).values()
        first, second = (x.reshape(-1) for x in inputs.values())
        kind = name.split(".")[0]
        if kind == "concat":
            expected = np.concatenate([inputs[key].reshape(-1) for key in sorted(inputs)])
        else:
            expected = first + second if kind == "sum" else first * second
        np.testing.assert_array_equal(found.reshape(-1), expected)


def test_matrix_product_with_its_own_weights(corpus: Path) -> None:
    program = load_program(corpus / "apple" / "hwx" / "gemm_nz.hwx")
    (x,) = program.inputs
    values = np.random.default_rng(0).standard_normal(512).astype(np.float16)
    (found,) = run(program, {x.name: values}).values()
    # 16 cores of one block of 32 output channels each, rows of 32 halfwords
    cores = np.frombuffer(program.constants, np.float16)[:512 * 512].reshape(16, 512, 32).astype(np.float32)
    expected = np.einsum("ckl,k->cl", cores, values.astype(np.float32)).reshape(-1)
    np.testing.assert_allclose(found.reshape(-1), expected, rtol=2e-3, atol=2e-2)
