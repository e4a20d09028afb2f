"""Targets: programs and models. Their files are made by the project itself."""

from __future__ import annotations

import json
import re
import sys
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

import openane as ane
from fuzzing.mutants import Mutant, of_bytes, of_json, of_protobuf, of_text, one_of
from fuzzing.stablehlo import STABLEHLO
from openane.chips import compiled_generations
from openane.formats import read_anec, read_hwx, write_anec, write_hwx
from openane.formats.blob import read_blob
from openane.formats.listing import assemble, disassemble_bytes
from openane.graph import Graph
from openane.graph.mil import parse_mil, print_mil
from openane.importers import load_graph, write_mlpackage, write_netplist
from openane.ops.build import GraphBuilder

LISTED = 16
"""One of so many programs is disassembled, too, which takes thirty times as long."""


SMALL = 1 << 14
"""Elements of a graph that is compiled, and bytes of a model of one node."""


@dataclass(frozen=True)
class Target:
    """Inputs to change, how, and what reads them."""

    seeds: Sequence[bytes]
    mutant: Mutant
    read: Callable[[bytes], object]


def small_graph(kind: str = "conv") -> Graph:
    """A few operations, with constants."""
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 4, 6, 8))
    if kind in ("conv", "weights"):
        weight = np.linspace(-1, 1, 4 * 4 * 9).reshape(4, 4, 3, 3).astype(np.float16)
        if kind == "weights":
            return builder.finish({"y": builder.single("conv", "y", x=x, weight=weight, pad_type="same")})
        x = builder.single("relu", x=builder.single("conv", x=x, weight=weight, pad_type="same"))
        return builder.finish({"y": builder.single("max_pool", "y", x=x, kernel_sizes=[2, 2], strides=[2, 2],
                                                   pad_type="valid")})
    if kind == "softmax":
        return builder.finish({"y": builder.single("softmax", "y", x=x, axis=3)})
    if kind == "tables":
        return builder.finish({"y": builder.single("tanh", "y", x=builder.single("exp", x=x))})
    if kind == "host":
        rows = builder.single("reduce_prod", "rows", x=builder.single("tanh", x=x), axes=[1], keep_dims=True)
        return builder.finish({"y": builder.single("add", "y", x=x, y=rows)})
    return builder.finish({"y": builder.single("relu", "y", x=builder.single("add", x=x, y=1.0))})


def through(path: Path, reader: Callable[[Path], object]) -> Callable[[bytes], object]:
    """What reads bytes as the file `path`."""
    path.parent.mkdir(parents=True, exist_ok=True)

    def read(data: bytes) -> object:
        path.write_bytes(data)
        return reader(path)

    return read


def hwx(generation: str) -> Callable[[Path], Target]:
    """Programs of one generation, as HWX files, which are then disassembled, too."""
    def target(_: Path) -> Target:
        programs = [ane.compile(small_graph(kind), target=generation, cache=False).programs[0]
                    for kind in ("conv", "tables", "add")]
        seeds = [write_hwx(program) for program in programs]
        if generation == "h13":
            seeds += [write_hwx(program, "compat") for program in programs]

        def read(data: bytes) -> object:
            if zlib.crc32(data) % LISTED == 0:
                disassemble_bytes(data)
            return read_hwx(data)

        return Target(seeds, of_bytes, read)
    return target


def anec(_: Path) -> Target:
    """ANEC files with either header."""
    programs = [ane.compile(small_graph(kind), cache=False).programs[0] for kind in ("conv", "softmax", "add")]
    return Target([write_anec(each, header) for each in programs for header in (0x1000, 0x800)], of_bytes, read_anec)


def listing(_: Path) -> Target:
    """Listings of programs, one with its comments and the others without, which are assembled; the bytes of the files
    beside them are right."""
    made = [disassemble_bytes(write_hwx(ane.compile(small_graph(kind), target=target, cache=False).programs[0]),
                              f"{kind}-{target}.hwx")
            for kind, target in (("add", "h13"), ("conv", "h13"), ("tables", "h16"))]
    sidecars = {each.sidecar_name: each.sidecar for each in made}
    seeds = [made[0].text, *(re.sub(r"(?<=\S) +", " ", re.sub(r" *;[^\"\n]*$", "", each.text, flags=re.MULTILINE))
                             for each in made[1:])]
    return Target([each.encode() for each in seeds], of_text,
                  lambda data: assemble(data.decode(errors="replace"), lambda name: sidecars.get(name, b"")))


def mil(_: Path) -> Target:
    """MIL texts."""
    texts = [print_mil(small_graph(kind))[0].encode() for kind in ("conv", "softmax", "add", "host")]
    blob = print_mil(small_graph("conv"))[1]
    return Target(texts, of_text, lambda data: parse_mil(data.decode(errors="replace"),
                                                         lambda _, offset: read_blob(blob, offset)))


def blob(_: Path) -> Target:
    """Weight files of Core ML."""
    data = print_mil(small_graph("conv"))[1]
    return Target([data], of_bytes, lambda changed: read_blob(changed, 64))


def netplist(folder: Path) -> Target:
    """net.plist files: XML."""
    (folder / "seed").mkdir()
    seeds = []
    for kind in ("conv", "add"):
        write_netplist(small_graph(kind), folder / "seed" / f"{kind}.plist")
        seeds.append((folder / "seed" / f"{kind}.plist").read_bytes())
    path = folder / "seed" / "mutant.plist"
    return Target(seeds, of_text, through(path, load_graph))


def espresso(part: str) -> Callable[[Path], Target]:
    """One of the three files of an espresso network."""
    def target(folder: Path) -> Target:
        names = {"net": "model.espresso.net", "shape": "model.espresso.shape", "weights": "model.espresso.weights"}
        weight = np.linspace(-1, 1, 4 * 3 * 9).astype(np.float32).tobytes()
        layers = [{"name": "a", "type": "convolution", "bottom": "x", "top": "a", "C": 4, "K": 3, "Nx": 3, "Ny": 3,
                   "n_groups": 1, "pad_mode": 1, "has_biases": 0, "blob_weights": 1, "weights": {}},
                  {"name": "b", "type": "pool", "bottom": "a", "top": "b", "size_x": 2, "size_y": 2, "stride_x": 2,
                   "stride_y": 2, "pad_mode": 2, "avg_or_max": 1, "weights": {}},
                  {"name": "c", "type": "softmax", "bottom": "b", "top": "c", "weights": {},
                   "attributes": {"is_output": 1}}]
        contents = {
            "net": json.dumps({"storage": names["weights"], "format_version": 200, "layers": layers}).encode(),
            "shape": json.dumps({"layer_shapes": {"x": {"n": 1, "k": 3, "h": 4, "w": 6, "_rank": 4}}}).encode(),
            "weights": b"".join(each.to_bytes(8, "little") for each in (1, 1, len(weight))) + weight}
        for each, name in names.items():
            (folder / name).write_bytes(contents[each])
        load_graph(folder / names["net"])

        def read(data: bytes) -> object:
            (folder / names[part]).write_bytes(data)
            return load_graph(folder / names["net"])

        return Target([contents[part]], of_bytes if part == "weights" else one_of(of_json, of_json, of_text), read)
    return target


def onnx(folder: Path) -> Target:
    """ONNX models: a classifier, and single nodes of many operators."""
    from onnx import TensorProto, helper, numpy_helper

    def model(nodes: Sequence[object], shape: Sequence[int], constants: Mapping[str, object] | None = None) -> bytes:
        graph = helper.make_graph(
            list(nodes), "g", [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, None)],
            [numpy_helper.from_array(np.asarray(value), name) for name, value in (constants or {}).items()])
        return bytes(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)],
                                       ir_version=9).SerializeToString())

    make, weight = helper.make_node, np.linspace(-1, 1, 36).astype(np.float32).reshape(1, 4, 3, 3)
    seeds = [
        model([make("Conv", ["x", "w"], ["a"], pads=[1, 1, 1, 1]), make("Relu", ["a"], ["b"]),
               make("MaxPool", ["b"], ["y"], kernel_shape=[2, 2])], (1, 4, 6, 8), {"w": weight}),
        model([make("Shape", ["x"], ["s"]), make("Gather", ["s", "i"], ["n"]),
               make("Concat", ["n", "m"], ["t"], axis=0), make("Reshape", ["x", "t"], ["r"]),
               make("Softmax", ["r"], ["y"])], (1, 4, 6, 8),
              {"i": np.array([0]), "m": np.array([-1])}),
        model([make("Slice", ["x", "i", "f", "i"], ["a"]), make("Pad", ["a", "p"], ["b"], mode="reflect"),
               make("Resize", ["b", "", "c"], ["d"], mode="linear"),
               make("Transpose", ["d"], ["y"], perm=[0, 2, 3, 1])], (1, 4, 6, 8),
              {"i": np.array([2]), "f": np.array([4]), "p": np.array([0, 0, 0, 1, 0, 0, 0, 1]),
               "c": np.array([1, 1, 1.5, 2], np.float32)}),
        model([make("ConstantOfShape", ["n"], ["a"]), make("Concat", ["a", "a"], ["b"], axis=0),
               make("Add", ["x", "b"], ["y"])], (1, 4, 6, 8), {"n": np.array([3, 8])}),
        model([make("Constant", [], ["c"], value=numpy_helper.from_array(np.ones((8, 3), np.float32))),
               make("MatMul", ["x", "c"], ["m"]), make("LayerNormalization", ["m", "g"], ["l"], axis=-1),
               make("ReduceMean", ["l", "i"], ["y"])], (1, 4, 6, 8),
              {"g": np.ones(3, np.float32), "i": np.array([1])}),
        model([make("Split", ["x"], ["a", "b"], axis=1, num_outputs=2), make("Mul", ["a", "b"], ["c"]),
               make("Einsum", ["c", "c"], ["y"], equation="abcd,abed->abce")], (1, 4, 6, 8))]
    return Target(seeds, one_of(of_protobuf, of_protobuf, of_protobuf, of_bytes),
                  through(folder / "m.onnx", load_graph))


def onnx_nodes(folder: Path) -> Target:
    """The models of single nodes that the onnx package comes with, which are compiled, too, where they are small."""
    from support.onnx_suite import cases

    seeds = [case.model.SerializeToString() for case in cases() if not case.name.endswith("_expanded")]

    def read(path: Path) -> object:
        graph = load_graph(path)
        if sum(value.type.elements for node in graph.nodes for value in node.values()) > SMALL:
            return graph
        return ane.compile(graph, cache=False, allow_host=True, precision="as-is")

    return Target([seed for seed in seeds if len(seed) < SMALL], of_protobuf, through(folder / "m.onnx", read))


def mlpackage(folder: Path) -> Target:
    """The specification in a Core ML package."""
    seeds = []
    for kind in ("conv", "add"):
        write_mlpackage(small_graph(kind), folder / f"{kind}.mlpackage")
        seeds.append(next((folder / f"{kind}.mlpackage").rglob("*.mlmodel")).read_bytes())
    package = folder / "conv.mlpackage"
    path = next(package.rglob("*.mlmodel"))
    return Target(seeds, one_of(of_protobuf, of_protobuf, of_bytes), through(path, lambda _: load_graph(package)))


def manifest(folder: Path) -> Target:
    """The manifest of a Core ML package."""
    write_mlpackage(small_graph("add"), folder / "m.mlpackage")
    path = folder / "m.mlpackage" / "Manifest.json"
    return Target([path.read_bytes()], one_of(of_json, of_text), through(path, lambda _: load_graph(path.parent)))


def mlmodel(folder: Path) -> Target:
    """Core ML's older networks, and a pipeline of programs."""
    from support.coreml import array_feature, layer, message, network, weights

    from openane.formats.protobuf import write_message
    from openane.importers.coreml.write import specification_of

    array = np.linspace(-1, 1, 6 * 4 * 9, dtype=np.float32)
    layers = [layer("convolution", "x", "a", outputChannels=6, kernelChannels=4, kernelSize=[3, 3],
                    weights=weights(array), valid=message("ValidPadding")),
              layer("activation", "a", "b", leakyReLU=message("Alpha", alpha=.5)),
              layer("pooling", "b", "c", kernelSize=[2, 2], stride=[2, 2], valid=message("ValidPadding")),
              layer("flatten", "c", "d"),
              layer("innerProduct", "d", "e", inputChannels=24, outputChannels=6, weights=weights(array[:144])),
              layer("slice", "e", "f", startIndex=1, endIndex=4, stride=2),
              layer("reshapeStatic", "f", "y", targetShape=[2, 1])]
    seed = network([array_feature("x", 1, 4, 6, 6)], layers, [array_feature("y")])
    parts = [specification_of(small_graph(kind), "ios16")[0] for kind in ("softmax", "tables")]
    described = message("ModelDescription", input=list(parts[0].description.input),
                        output=list(parts[1].description.output))
    joined = write_message(message("Model", specificationVersion=7, description=described,
                                   pipeline=message("Pipeline", models=parts)))
    return Target([seed, joined], one_of(of_protobuf, of_protobuf, of_bytes), through(folder / "n.mlmodel", load_graph))


def stablehlo(folder: Path) -> Target:
    """Texts of StableHLO."""
    return Target([STABLEHLO.encode()], of_text, through(folder / "m.mlir", load_graph))


def lzfse(_: Path) -> Target:
    """Compressed data."""
    from openane.formats.lzfse import decompress

    sys.path.append(str(Path(__file__).parents[2] / "tests" / "unit" / "formats"))
    from test_lzfse import COMPRESSED, SHORT, stored  # by the reference encoder

    return Target([COMPRESSED, SHORT, stored(b"abcdefgh" * 4) + SHORT], of_bytes, partial(decompress, limit=1 << 20))


TARGETS: dict[str, Callable[[Path], Target]] = {
    **{f"hwx-{name}": hwx(name) for name in compiled_generations()},
    "anec": anec, "listing": listing, "mil": mil, "blob": blob, "netplist": netplist,
    **{f"espresso-{part}": espresso(part) for part in ("net", "shape", "weights")},
    "onnx": onnx, "onnx-nodes": onnx_nodes, "mlpackage": mlpackage, "mlpackage-manifest": manifest,
    "mlmodel": mlmodel, "stablehlo": stablehlo, "lzfse": lzfse,
}
