"""Directories whose weights have 8 bits: compressed-tensors and bitsandbytes are read, other forms are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from networks.language import RandomWeights
from safetensors.numpy import load_file, save_file
from support import checkpoints
from support.language_reference import LLAMA

from openane.errors import FormatError, UnsupportedError
from openane.models.load import opened

INTEGERS = {"quant_method": "compressed-tensors", "format": "int-quantized"}
Tensors = dict[str, np.ndarray]


def rounded(weight: np.ndarray, scale: np.ndarray, zero: int = 0) -> np.ndarray:
    return np.clip(np.rint(weight / scale) + zero, -128, 127).astype(np.int8)


def by_row(name: str, weight: np.ndarray) -> Tensors:
    scale = np.abs(weight).max(1, keepdims=True) / 127
    return {name: rounded(weight, scale), f"{name}_scale": scale.astype(np.float32),
            f"{name}_shape": np.array(weight.shape)}


def by_block(name: str, weight: np.ndarray) -> Tensors:
    scale = np.abs(weight).reshape(len(weight), -1, 16).max(2) / 127
    return {name: rounded(weight, np.repeat(scale, 16, 1)), f"{name}_scale": scale.astype(np.float32)}


def with_offset(name: str, weight: np.ndarray) -> Tensors:
    scale = (weight.max() - weight.min()) / 250
    zero = int(-128 - np.rint(weight.min() / scale) + 2)
    return {name: rounded(weight, scale, zero), f"{name}_scale": np.array([scale], np.float32),
            f"{name}_zero_point": np.array([zero], np.int8)}


def bitsandbytes(name: str, weight: np.ndarray) -> Tensors:
    largest = np.abs(weight).max(1)
    front = name.removesuffix("weight")
    return {name: rounded(weight, largest[:, None] / 127), f"{front}SCB": largest.astype(np.float32),
            f"{front}weight_format": np.array(0, np.uint8)}


def directory(folder: Path, form: Callable[[str, np.ndarray], Tensors], configuration: dict[str, Any]) -> None:
    """A directory whose projections are in a form."""
    checkpoints.llama_directory(folder, LLAMA, RandomWeights(LLAMA), extra={"quantization_config": configuration})
    tensors: Tensors = {}
    for name, array in load_file(folder / "model.safetensors").items():
        tensors |= form(name, array) if "_proj" in name else {name: array}
    save_file(tensors, folder / "model.safetensors")


@pytest.mark.parametrize(("form", "configuration"), [
    (by_row, INTEGERS), (by_block, INTEGERS), (with_offset, INTEGERS),
    (bitsandbytes, {"quant_method": "bitsandbytes", "load_in_8bit": True})])
def test_weights_are_what_their_integers_stand_for(form: Callable[[str, np.ndarray], Tensors],
                                                   configuration: dict[str, Any], tmp_path: Path) -> None:
    directory(tmp_path, form, configuration)
    wanted = RandomWeights(LLAMA)
    with opened(tmp_path) as (_, weights):
        assert set(weights) == set(wanted)
        for name in wanted:
            assert np.abs(weights[name] - wanted[name]).max() <= np.abs(wanted[name]).max() / 120


@pytest.mark.parametrize("configuration", [
    {"quant_method": "gptq"}, {"quant_method": "compressed-tensors", "format": "pack-quantized"},
    {"quant_method": "bitsandbytes", "load_in_4bit": True}, "int8"])
def test_other_methods_are_refused_by_name(configuration: Any, tmp_path: Path) -> None:
    directory(tmp_path, by_row, configuration)
    with pytest.raises(UnsupportedError, match="compressed-tensors of the format int-quantized"), opened(tmp_path):
        pass


@pytest.mark.parametrize(("last", "says"), [("weight_packed", "packed into words"), ("qweight", "GPTQ or AWQ"),
                                            ("weight.absmax", "4 bits")])
def test_tensors_of_other_forms_are_refused_by_name(last: str, says: str, tmp_path: Path) -> None:
    checkpoints.llama_directory(tmp_path, LLAMA, RandomWeights(LLAMA))
    tensors = load_file(tmp_path / "model.safetensors")
    save_file({**tensors, f"model.layers.0.mlp.up_proj.{last}": np.ones(4, np.int32)}, tmp_path / "model.safetensors")
    with pytest.raises(UnsupportedError, match=says), opened(tmp_path):
        pass


def test_scales_that_do_not_fit_are_an_error(tmp_path: Path) -> None:
    directory(tmp_path, lambda name, weight: {**by_row(name, weight), f"{name}_scale": np.ones((3, 1), np.float32)},
              INTEGERS)
    with opened(tmp_path) as (_, weights), pytest.raises(FormatError, match="a scale for each of"):
        [weights[name] for name in weights]
