"""What people give for a graph: each is told how to get one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from onnx import ModelProto

import openane as ane

TAKES: dict[str, Callable[[object], object]] = {
    "compile": ane.compile, "compile_for": ane.compile_for, "check": ane.check, "quantize": ane.quantize,
    "compile_functions": lambda given: ane.compile_functions([given]),
    "compile_shapes": lambda given: ane.compile_shapes([given])}


@pytest.mark.parametrize("given", ["model.onnx", Path("model.onnx")])
@pytest.mark.parametrize("name", TAKES)
def test_a_path(name: str, given: object) -> None:
    with pytest.raises(ane.GraphError, match=r"found the path 'model\.onnx': give openane\.load_graph of it"):
        TAKES[name](given)


@pytest.mark.parametrize("name", TAKES)
def test_a_model_of_the_onnx_package(name: str) -> None:
    with pytest.raises(ane.GraphError, match=r"ModelProto: onnx\.save writes it"):
        TAKES[name](ModelProto())


@pytest.mark.parametrize(("given", "found"), [
    (3, "give its path; openane.load_graph reads one"), (ModelProto(), "onnx.save")])
def test_what_no_graph_is_read_from(given: object, found: str) -> None:
    with pytest.raises(ane.UnsupportedError, match=found):
        ane.load_graph(given)
