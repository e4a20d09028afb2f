"""Mutated ONNX models load or are refused by a typed error; $OPENANE_FUZZ sets the mutants (default 1000)."""

from __future__ import annotations

import os
import random
import warnings

import numpy as np
import onnx
import pytest

from openane.errors import AneError
from openane.importers.onnx import OPERATORS, load_onnx, storage

helper = onnx.helper
OPERATIONS = (*sorted(OPERATORS), "Shape", "Constant", "ConstantOfShape", "Range", "Attention", "EyeLike", "NonZero")
MUTANTS = int(os.environ.get("OPENANE_FUZZ", "1000"))
TEXTS = (b"axis", b"pads", b"mode", b"Loop", b"Scan", b"Slice", b"Gather", b"Split", b"Resize", b"Einsum", b"TopK", b"")


def _scan():
    body = helper.make_graph(
        [helper.make_node("Add", ["s", "e"], ["t"]), helper.make_node("Identity", ["t"], ["u"])], "body",
        [helper.make_tensor_value_info(name, 1, [4]) for name in ("s", "e")],
        [helper.make_empty_tensor_value_info(name) for name in ("t", "u")])
    return helper.make_node("Scan", ["zero", "rows"], ["last", "all"], num_scan_inputs=1, body=body)


def _models(model, weights, ints):
    """Serialised models that together have shapes to fold, windows, indices, loops, functions and recurrent layers."""
    make = helper.make_node
    folding = [make("Shape", ["x"], ["s"]), make("Gather", ["s", "i"], ["n"]),
               make("Concat", ["n", "m"], ["t"], axis=0),
               make("Conv", ["x", "w", "b"], ["a"], pads=[1, 1, 1, 1], strides=[1, 1], group=1),
               make("MaxPool", ["a"], ["p"], kernel_shape=[2, 2]), make("Clip", ["a", "", "lim"], ["c"]),
               make("Reshape", ["c", "t"], ["r"]), make("Softmax", ["r"], ["y"])]
    picking = [make("Slice", ["x", "i", "far", "i"], ["a"]), make("Pad", ["a", "pads"], ["b"], mode="reflect"),
               make("Resize", ["b", "", "scales"], ["c"], mode="cubic"), make("Split", ["c"], ["d", "e"], axis=3),
               make("Gather", ["d", "k"], ["f"], axis=2), make("TopK", ["f", "j"], ["g", "h"], axis=2),
               make("CumSum", ["g", "one"], ["q"]), make("Einsum", ["q", "q"], ["y"], equation="abcd,abed->ce")]
    looping = [make("Reshape", ["x", "shape"], ["rows"]), _scan(),
               make("LSTM", ["all3", "wi", "wh"], ["y", "", ""], hidden_size=2),
               make("LayerNormalization", ["all", "gain"], ["z"]), make("MeanVarianceNormalization", ["x"], ["v"])]
    looping.insert(2, make("Unsqueeze", ["all", "one"], ["all3"]))
    quantised = [make("QuantizeLinear", ["x", "lim", "zp"], ["a"]), make("DequantizeLinear", ["a", "lim", "zp"], ["b"]),
                 make("ConvTranspose", ["b", "w"], ["c"], strides=[2, 2]), make("OneHot", ["i", "j", "two"], ["o"]),
                 make("ScatterND", ["b", "where", "upd"], ["y"])]
    shape = {"x": (1, 1, 4, 4)}
    return [
        model(folding, shape, {"i": ints(0), "m": ints(-1), "w": weights(2, 1, 3, 3), "b": weights(2),
                               "lim": np.float32(1)}, outputs=("y", "p")),
        model(picking, shape, {"i": ints(2), "j": ints(3), "far": ints(4), "pads": ints(0, 0, 0, 1, 0, 0, 0, 1),
                               "k": ints(0, 1, 0), "scales": np.array([1, 1, 1.5, 2], np.float32),
                               "one": np.array(1)}, 18),
        model(looping, shape, {"shape": ints(4, 4), "zero": np.zeros(4, np.float32), "one": ints(1),
                               "wi": weights(1, 8, 4), "wh": weights(1, 8, 2), "gain": weights(4)},
              outputs=("y", "z", "v")),
        model(quantised, shape, {"lim": np.float32(0.5), "zp": np.uint8(3), "w": weights(1, 2, 3, 3), "i": ints(1, 2),
                                 "j": np.array(3), "two": np.array([0, 1], np.float32), "where": ints(0)[None],
                                 "upd": weights(1, 1, 4, 4)}, 19, outputs=("y", "c", "o")),
    ]


def _mutant(data: bytes, chance: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        place = chance.randrange(len(mutated))
        kind = chance.randrange(5)
        if kind == 0:
            mutated[place] = chance.randrange(256)
        elif kind == 1:
            mutated[place] ^= 1 << chance.randrange(8)
        elif kind == 2:
            del mutated[place:place + chance.randint(1, 8)]
        elif kind == 3:
            mutated[place:place] = chance.randbytes(chance.randint(1, 4))
        else:
            text = chance.choice(TEXTS)
            mutated[place:place + len(text)] = text
    return bytes(mutated)


NUMBERS = (-2**63, -2**31, -7, -2, -1, 0, 1, 2, 3, 5, 40, 2**20, 2**31, 2**62)


def _edited(data: bytes, chance: random.Random) -> bytes:
    """A model that parses: operators, attributes, names, shapes and types exchanged."""
    proto = onnx.load_model_from_string(data)
    for _ in range(chance.randint(1, 3)):
        node, tensor = chance.choice(proto.graph.node), chance.choice(proto.graph.initializer)
        names = [name for each in proto.graph.node for name in each.output] + [t.name for t in proto.graph.initializer]
        kind = chance.randrange(8)
        if kind == 0:
            node.op_type = chance.choice(OPERATIONS)
        elif kind == 1 and node.input:
            node.input[chance.randrange(len(node.input))] = chance.choice([*names, "x", ""])
        elif kind == 2 and node.input:
            del node.input[chance.randrange(len(node.input))]
        elif kind == 3:
            node.input.append(chance.choice([*names, "x"]))
        elif kind == 4 and node.attribute:
            _edit_attribute(chance.choice(node.attribute), chance)
        elif kind == 5:
            proto.opset_import[0].version = chance.randint(1, 30)
        elif kind == 6 and tensor.dims:
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.array(
                [chance.choice(NUMBERS) for _ in range(chance.randint(0, 5))], np.int64), tensor.name))
        else:
            shape = proto.graph.input[0].type.tensor_type.shape
            chance.choice(shape.dim).dim_value = chance.choice(NUMBERS)
    return proto.SerializeToString()


def _edit_attribute(attribute, chance: random.Random) -> None:
    if attribute.ints:
        attribute.ints[chance.randrange(len(attribute.ints))] = chance.choice(NUMBERS)
        if chance.random() < 0.3:
            attribute.ints.append(chance.choice(NUMBERS))
    elif attribute.HasField("s"):
        attribute.s = chance.choice([b"", b"wrap", b"edge", b"cubic", b"ab,bc->ac", b"\xff"])
    elif attribute.HasField("i"):
        attribute.i = chance.choice(NUMBERS)
    else:
        attribute.name = chance.choice(["axis", "body", "pads", "mode", "kernel_shape"])


@pytest.mark.parametrize("least", [storage.LEAST, 1])
def test_mutated_models_raise_typed_errors(weights, ints, model, least, monkeypatch):
    """With every tensor read when it is used, and with those of these small models held in the protobuf."""
    monkeypatch.setattr(storage, "LEAST", least)
    seeds = [proto.SerializeToString() for proto in _models(model, weights, ints)]
    for seed in seeds:
        load_onnx(seed)
    chance = random.Random(11)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for number in range(MUTANTS):
            seed = seeds[number % len(seeds)]
            mutated = _mutant(seed, chance) if number % 8 < 4 else _edited(seed, chance)
            try:
                load_onnx(mutated, saturate=True)
            except AneError:
                continue
