"""Quantised programs of PyTorch beside PyTorch: export quantisation (pt2e), torchao's operators, simulated rounding."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import library
from support.torch_programs import exported, module

import openane as ane

torch = library("torch")
import_module("torch.ao.quantization.fx._decomposed")
functional = torch.nn.functional
quantised = torch.ops.quantized_decomposed
INT8, UINT8, INT16 = (-128, 127, torch.int8), (0, 255, torch.uint8), (-32768, 32767, torch.int16)


def drawn(*shape: int, size: float = 1.0) -> Any:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(sum(shape))) * size


def pair(x: Any, scale: float, zero: int, bounds: tuple[int, int, Any] = INT8) -> Any:
    """Quantised and dequantised as pt2e writes it."""
    whole = quantised.quantize_per_tensor(x, scale, zero, *bounds)
    return quantised.dequantize_per_tensor(whole, scale, zero, *bounds)


def integers(*shape: int) -> Any:
    return torch.randint(-127, 128, shape, dtype=torch.int8, generator=torch.Generator().manual_seed(sum(shape)))


class Layers(torch.nn.Module):  # type: ignore[misc]
    """A convolution with a scale for each output, a linear layer with one, a residual sum and their quantisations."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("conv", integers(8, 8, 3, 3))
        self.register_buffer("scales", torch.linspace(0.001, 0.002, 8))
        self.register_buffer("zeros", torch.zeros(8, dtype=torch.int64))
        self.register_buffer("dense", integers(10, 8))
        self.bias = torch.nn.Parameter(drawn(8))

    def forward(self, x: Any) -> Any:
        weight = quantised.dequantize_per_channel(self.conv, self.scales, self.zeros, 0, -127, 127, torch.int8)
        x = pair(x, 0.03, 5, UINT8)
        y = pair(functional.relu(functional.conv2d(x, weight, self.bias, padding=1)), 0.025, -128)
        y = pair(y + x, 0.05, 3)
        pooled = pair(y.mean((2, 3)), 0.0113, -7)
        dense = quantised.dequantize_per_tensor(self.dense, 0.002, 0, -127, 127, torch.int8)
        return pair(functional.linear(pooled, dense), STEP, 1)


STEP = 0.02


def run(net: Any, *inputs: Any, file: Path | None = None) -> np.ndarray:
    program = exported(net, *inputs)
    if file is not None:
        torch.export.save(program, file)
    model = ane.compile(ane.load_graph(file or program))
    names = [each.name for each in model.inputs]
    [found] = ane.run(model, dict(zip(names, (each.numpy() for each in inputs), strict=True))).values()
    return np.asarray(found)


def test_static_quantisation_is_within_a_step() -> None:
    net, x = Layers(), drawn(2, 8, 6, 6)
    off = np.abs(run(net, x) - net(x).detach().numpy()) / STEP
    assert off.max() < 1.1
    assert np.mean(off > 0.5) < 0.1, "nearly all are the very steps"


def test_a_file_needs_no_module_imported_before(tmp_path: Path) -> None:
    torch.export.save(exported(Layers(), drawn(1, 8, 6, 6)), tmp_path / "m.pt2")
    code = f"import openane; print(len(openane.load_graph({str(tmp_path / 'm.pt2')!r}).nodes))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert int(done.stdout) > 20, done.stderr


def test_operators_of_a_package_that_is_missing_are_said_to_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.export.save(exported(Layers(), drawn(1, 8, 6, 6)), tmp_path / "m.pt2")
    monkeypatch.setattr("openane.importers.torch.exported.DECLARED_IN",
                        {b"quantized_decomposed": ("no_such_module", "no-such-package")})
    with pytest.raises(ane.errors.UnsupportedError, match="needs the package no-such-package"):
        ane.load_graph(tmp_path / "m.pt2")


def one_scale(x: Any) -> Any:
    scale, zero = quantised.choose_qparams(x, -128, 127, 1e-5, torch.int8)
    return quantised.dequantize_per_tensor(quantised.quantize_per_tensor(x, scale, zero, *INT8), scale, zero, *INT8)


def each_row(x: Any) -> Any:
    scale, zero = quantised.choose_qparams_per_token_asymmetric(x, torch.int8)
    whole = quantised.quantize_per_token(x, scale, zero, *INT8)
    return quantised.dequantize_per_token(whole, scale, zero, *INT8, torch.float32)


def sixteen_bits(x: Any) -> Any:
    return pair(x, 1e-4, 0, INT16)


@pytest.mark.parametrize("rounding", [one_scale, each_row, sixteen_bits])
def test_measured_and_fine_steps_stay_unrounded(rounding: Callable[[Any], Any]) -> None:
    weight, x = drawn(6, 16), drawn(4, 16, size=0.5)
    found = run(module(lambda given: functional.linear(rounding(given), weight)), x)
    plain = functional.linear(x, weight).numpy()
    assert np.abs(found - plain).max() < 5e-3
    assert (rounding(x) - x).abs().max() < 0.02, "it is what PyTorch rounds"


def test_sixteen_bits_keep_numbers_within_their_range() -> None:
    x = torch.tensor([[-9.0, -1.0, 2.0, 9.0]])
    assert np.allclose(run(module(lambda given: sixteen_bits(given) * 2), x), [[-6.5536, -2, 4, 6.5534]], atol=0.01)


@pytest.mark.parametrize("from_file", [False, True])
def test_simulated_rounding_is_rounded(from_file: bool, tmp_path: Path) -> None:
    scales, zeros = torch.linspace(0.02, 0.05, 8), torch.zeros(8, dtype=torch.int32)
    first = torch.fake_quantize_per_tensor_affine
    net = module(lambda x: torch.fake_quantize_per_channel_affine(
        first(first(x, 0.03, 3, 0, 255), torch.tensor(0.04), torch.tensor(2), -128, 127), scales, zeros, 1, -8, 7))
    x = drawn(4, 8)
    found = run(net, x, file=tmp_path / "m.pt2" if from_file else None)
    assert np.abs(found - net(x).numpy()).max() < 1e-3


def affine() -> Any:
    """torchao's operators, declared as it does where it is not installed."""
    if not hasattr(torch.ops.torchao, "quantize_affine"):
        declared = torch.library.Library("torchao", "FRAGMENT")
        declared.define("choose_qparams_affine(Tensor input, int[] block_size) -> (Tensor, Tensor)")
        declared.define("quantize_affine(Tensor input, int[] block_size, Tensor scale, Tensor? zero_point, "
                        "int quant_min, int quant_max) -> Tensor")
        declared.define("dequantize_affine(Tensor input, int[] block_size, Tensor scale, Tensor? zero_point) -> Tensor")
        kind = "CompositeImplicitAutograd"
        declared.impl("choose_qparams_affine", lambda x, block: (x.abs().amax(1, True) / 127, torch.zeros(4, 1)), kind)
        declared.impl("quantize_affine", lambda x, block, scale, zero, low, high:
                      (x / scale).round().clamp(low, high).to(torch.int8), kind)
        declared.impl("dequantize_affine", lambda x, block, scale, zero: x.float() * scale, kind)
        affine.kept = declared  # type: ignore[attr-defined]
    return torch.ops.torchao


WEIGHT = integers(8, 32).t()


def product_of_integers(x: Any, *, offset: int) -> Any:
    """A linear layer as torchao writes it: integers, which it may move above zero, times integers."""
    scale, zero = affine().choose_qparams_affine(x, [1, 32])
    whole = affine().quantize_affine(x, [1, 32], scale, zero, -128, 127).reshape(-1, 32)
    if offset:
        whole = (whole.to(torch.int32) + offset).to(torch.uint8)
    found = torch._int_mm(whole, WEIGHT)
    if offset:
        found = found - WEIGHT.sum(0, keepdim=True, dtype=torch.int32) * offset
    return found.to(torch.float32) * scale.reshape(-1, 1) * 0.01 + 1


@pytest.mark.parametrize("offset", [0, 128])
def test_products_of_measured_integers_are_those_of_the_numbers(offset: int) -> None:
    affine()
    x = drawn(4, 32)
    found = run(module(lambda given: product_of_integers(given, offset=offset)), x)
    assert np.abs(found - (x @ WEIGHT.float() * 0.01 + 1).numpy()).max() < 0.01


@pytest.mark.parametrize("net", [
    lambda x: quantised.quantize_per_tensor(x, *quantised.choose_qparams(x, -128, 127, 1e-5, torch.int8), *INT8),
    lambda x: quantised.choose_qparams(x, -128, 127, 1e-5, torch.int8)[0] * 2])
def test_measured_integers_are_for_dequantising_alone(net: Callable[[Any], Any]) -> None:
    with pytest.raises(ane.errors.UnsupportedError, match="dequantise"):
        ane.load_graph(exported(module(net), drawn(4, 8)))
