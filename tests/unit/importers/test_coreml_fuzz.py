"""Mutated Core ML and MIL files load or are refused by a typed error; $OPENANE_FUZZ sets the mutants per kind."""

from __future__ import annotations

import os
import random
import time
import warnings
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from support.coreml import array_feature, image_feature, layer, message, network, small_graph, weights

from openane.errors import AneError
from openane.graph.mil import print_mil
from openane.importers import load_graph
from openane.importers.coreml.write import write_mlpackage

MUTANTS = int(os.environ.get("OPENANE_FUZZ", "250"))
EXTREMES = (b"\0", b"\xff", b"\x80", b"\x7f", b"\xff" * 9 + b"\x01", b"\x80" * 10, b"\x0a\x00", b"\xff\xff\xff\xff\x07")
WORDS = ("(", ")", "[", "]", "{", "}", "<", ">", ",", ";", "=", '"', "-1", "0x", "1e999", "99999999999", "tensor",
         "const", "state", "fp16", "int4", "nan", "x", "?", "*", "", "BLOBFILE", "relu", "4", "0")
OPEN = """program(1.3) { func main<ios18>(tensor<fp16, [?, 4, 6]> x) [FlexibleShapeInformation = (("DefaultShapes",
    {{"x", [2, 4, 6]}}))] {
    tensor<int32, [3]> s = shape(x = x)[name = string("s")];
    tensor<int32, [2]> b = slice_by_index(x = s, begin = tensor<int32, [1]>([0]), end = tensor<int32, [1]>([2]))[];
    tensor<int32, [2]> m = mul(x = b, y = tensor<int32, [2]>([2, 1]))[];
    int32 g = gather(x = s, indices = int32(2), axis = int32(0))[];
    tensor<int32, [1]> e = expand_dims(x = g, axes = tensor<int32, [1]>([0]))[];
    tensor<int32, [2]> t = concat(values = (e, tensor<int32, [1]>([-1])), axis = int32(0), interleave = bool(false))[];
    tensor<fp16, [?, ?]> y = reshape(x = x, shape = t)[name = string("y")]; } -> (y, m); }"""
SLOWEST = 5.0  # seconds for one mutant


def network_bytes() -> bytes:
    array = np.linspace(-1, 1, 6 * 4 * 9, dtype=np.float32)
    layers = [
        layer("convolution", "x", "a", outputChannels=6, kernelChannels=4, kernelSize=[3, 3], weights=weights(array),
              valid=message("ValidPadding")),
        layer("activation", "a", "b", leakyReLU=message("Alpha", alpha=.5)),
        layer("pooling", "b", "c", kernelSize=[2, 2], stride=[2, 2], valid=message("ValidPadding")),
        layer("flatten", "c", "d"),
        layer("innerProduct", "d", "e", inputChannels=24, outputChannels=6, weights=weights(array[:144])),
        layer("slice", "e", "f", startIndex=1, endIndex=4, stride=2), layer("upsample", "f", "g", scalingFactor=[2, 2]),
        layer("reshapeStatic", "g", "h", targetShape=[2, 4]), layer("tile", "h", "y", reps=[2, 3])]
    return network([array_feature("x", 1, 4, 6, 6), image_feature("i", 4, 4, 20)], layers, [array_feature("y")])


def mutated(data: bytes, draw: random.Random) -> bytes:
    """Bytes changed in one to three places."""
    for _ in range(draw.choice((1, 1, 2, 3))):
        place, kind = draw.randrange(len(data) + 1), draw.randrange(4)
        length = draw.choice((0, 1, 1, 2, 8, 40))
        if kind == 0 and data:
            flipped = bytearray(data)
            flipped[place % len(data)] ^= 1 << draw.randrange(8)
            data = bytes(flipped)
        elif kind == 1:
            data = data[:place] + draw.choice(EXTREMES) + data[place + length:]
        elif kind == 2:
            source = draw.randrange(len(data) + 1)
            data = data[:place] + data[source:source + length] + data[place + length:]
        else:
            data = data[:place] if draw.random() < .2 else data[:place] + data[place + length:]
    return data


def reworded(data: bytes, draw: random.Random) -> bytes:
    """Text with one to four pieces put in place of others."""
    text = data.decode()
    for _ in range(draw.randint(1, 4)):
        place = draw.randrange(len(text) + 1)
        text = text[:place] + draw.choice(WORDS) + text[place + draw.choice((0, 0, 1, 2, 5, 12)):]
    return text.encode()


@pytest.mark.parametrize("kind", ["specification", "network", "manifest", "weights", "text", "open"])
def test_mutants_raise_typed_errors(kind: str, tmp_path: Path) -> None:
    write_mlpackage(small_graph(), tmp_path / "m.mlpackage")
    below = tmp_path / "m.mlpackage" / "Data" / "com.apple.CoreML"
    path = {"specification": below / "model.mlmodel", "network": tmp_path / "n.mlmodel", "text": tmp_path / "t.mil",
            "open": tmp_path / "o.mil",
            "manifest": tmp_path / "m.mlpackage" / "Manifest.json", "weights": below / "weights" / "weight.bin"}[kind]
    (tmp_path / "n.mlmodel").write_bytes(network_bytes())
    text, stored = print_mil(small_graph())
    (tmp_path / "t.mil").write_text(text)
    (tmp_path / "o.mil").write_text(OPEN)
    (tmp_path / "weight.bin").write_bytes(stored)
    model = path if kind in ("network", "text", "open") else tmp_path / "m.mlpackage"
    original, draw, outcomes = path.read_bytes(), random.Random(kind), Counter[str]()
    load_graph(model)
    for number in range(MUTANTS):
        path.write_bytes((reworded if kind in ("text", "manifest", "open") else mutated)(original, draw))
        start = time.perf_counter()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                load_graph(model)
            outcomes["loaded"] += 1
        except AneError as error:
            outcomes["refused" if str(error) else "silent"] += 1
        except Exception as error:
            raise AssertionError(f"mutant {number} of {kind}") from error
        assert time.perf_counter() - start < SLOWEST, f"mutant {number} of {kind}"
    assert outcomes["loaded"] > MUTANTS // 400, "the mutations leave nothing to read: they test one check only"
    assert not outcomes["silent"], "an error says nothing"
    assert outcomes["refused"] > MUTANTS // 20
