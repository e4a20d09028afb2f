"""Recorded compilations of Apple's compiler: their tasks, with constants packed here, compute what the MIL says."""

import hashlib
import importlib.util
import json

import numpy as np
import pytest
from support.records import record_tasks

from openane.chips import get_chip
from openane.compiler.packing import pack_dense, pack_sparse
from openane.devices import open_device
from openane.engine import Convolution, DType, Packing, Space, sources
from openane.importers.mil import load_mil
from openane.ops import tables
from openane.ops.activation import POSTS
from openane.ops.evaluate import evaluate
from openane.program import Buffer, Layout, Program, Role

CHIP = get_chip("h13")
FP16 = 2.0 ** -10

# Records whose weights are packed by our rules: the section's SHA-256 must be Apple's.
DENSE = ("conv_k1", "conv_probe_k3", "env_conv_k1_c64_n64_s16_st1", "env_conv_k1_c64_n64_s16_st2", "env_conv_k1_c768",
         "env_conv_k3_c64_n64_s16_st1_g4", "env_conv_k3_c64_n64_s16_st2", "env_conv_k3_c128",
         "matmul_", "binary_add_c64_constant_blob", "env_bcast_mul_1x64x8x8_blob")


@pytest.fixture(scope="module")
def materialise(corpus):
    path = corpus / "apple/oracles/materialise.py"
    spec = importlib.util.spec_from_file_location("materialise", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def record_names(corpus):
    return sorted(path.stem for path in (corpus / "apple/oracles").glob("*.json"))


def load_record(corpus, name, materialise, folder):
    path = corpus / "apple/oracles" / f"{name}.json"
    materialise(str(path), str(folder))
    return json.loads(path.read_text()), load_mil(folder / "model.mil", folder)


def weight_rows(graph):
    """Weights [groups, channels, rows] and biases of the graph's convolution or constant product; vectors otherwise."""
    for node in graph.nodes:
        if node.op == "conv":
            weight, groups = node["weight"].array(), int(node["groups"].array())
            bias = node.get("bias")
            return (weight.reshape(groups, weight.shape[0] // groups, -1),
                    None if bias is None else bias.array().reshape(groups, -1))
        if node.op == "matmul":
            weight = node["y"].array()
            rows = weight if bool(node["transpose_y"].array()) else weight.T
            return rows[None], None
    raise AssertionError("no weights")


def table_bytes(graph, operation):
    """The table an operation of this graph needs."""
    node = graph.nodes[-1]
    if node.op == "softmax":
        return (tables.inverse() if isinstance(operation, Convolution) else tables.exp2()).to_bytes()
    if node.op == "maximum":
        return tables.clip(float(node["y"].array()), float("inf")).to_bytes()
    settings = {"mode": node["mode"].data} if "mode" in node.operands else {"epsilon": 0.0}
    return POSTS[node.op](settings)[1].to_bytes()


def constants_of(record, graph, operations):
    """The constant section, packed here for the streams the tasks read."""
    section = bytearray(record["constant"]["size"])
    for operation in operations:
        coefficients = getattr(operation, "coefficients", None)
        if coefficients is None or coefficients.slot != 1:
            for access in sources(operation):
                if access.space is Space.MEMORY and access.slot == 1:
                    constant = next(v.array() for v in graph.nodes[0].values() if v.constant and v.shape)
                    neutral = np.ones if graph.nodes[0].op == "add" else np.zeros
                    rows = [constant.reshape(-1), neutral(constant.size, np.float16)]
                    vectors = np.stack(rows if graph.nodes[0].op == "add" else rows[::-1]).astype(np.float16).tobytes()
                    section[access.offset:access.offset + len(vectors)] = vectors
            continue
        table = table_bytes(graph, operation) if coefficients.table else None
        if not coefficients.weights:
            for stream in coefficients.streams:
                section[stream.offset:stream.offset + 128] = table
            continue
        weights, bias = weight_rows(graph)
        if coefficients.packing is Packing.SPARSE:
            packed = pack_sparse(weights[0].reshape(len(weights[0]), -1, *operation.kernel[1:]),
                                 None if bias is None else bias.reshape(-1), coefficients.lanes)
        else:
            packed = pack_dense(weights, bias, coefficients.lanes, table)
        for core, offset, size in packed.streams:
            stream = next(s for s in coefficients.streams if s.core == core)
            assert stream.size == size
            section[stream.offset:stream.offset + size] = packed.data[offset:offset + size]
    return bytes(section)


def program_of(record, graph, tasks, operations):
    """The record as a program: ports take the slots from 4 in alphabetical order of their names."""
    accesses = [a for op in operations for a in (*sources(op), op.result) if a.space is Space.MEMORY]
    values = {v.name: (v, Role.INPUT) for v in graph.inputs} | {v.name: (v, Role.OUTPUT) for v in graph.outputs}
    surfaces = iter(record["tensors"])
    layouts = {}
    for group in (graph.inputs, graph.outputs):
        for name in sorted(v.name for v in group):
            layouts[name] = next(surfaces)
    buffers = []
    for slot, name in enumerate(sorted(values), start=4):
        surface, (value, role) = layouts[name], values[name]
        n, c, h, w = surface["shape"]
        sn, sc, sh, sw = surface["strides"]
        dtype = DType.UINT8 if value.dtype == "bool" else DType.FLOAT16
        reach = max([a.span[1] for a in accesses if a.slot == slot] + [surface["total_bytes"] * n])
        layout = Layout((n, c, 1, h, w), (sn, sc, sn, sh, sw), dtype)
        buffers.append(Buffer(name, slot, role, reach, layout))
    scratch = max([a.span[1] for a in accesses if a.slot == 3], default=0)
    if scratch:
        buffers.append(Buffer("scratch", 3, Role.SCRATCH, scratch))
    return Program("h13", tasks, constants_of(record, graph, operations), tuple(buffers))


def check_record(corpus, name, materialise, folder, arithmetic):
    """Runs a record on random data and compares with the reference; returns the worst error over the tolerance."""
    record, graph = load_record(corpus, name, materialise, folder)
    tasks = tuple(record_tasks(record))
    operations = [CHIP.operation(task.words) for task in tasks]
    program = program_of(record, graph, tasks, operations)
    if name.startswith(DENSE):
        assert hashlib.sha256(program.constants).hexdigest() == record["constant"]["sha256"]
    rng = np.random.default_rng(5)
    inputs = {}
    for value in graph.inputs:
        if value.dtype == "bool":
            inputs[value.name] = rng.integers(0, 2, value.shape).astype(bool)
        else:
            inputs[value.name] = (np.abs(rng.normal(size=value.shape)) + 0.1 if graph.nodes[0].op == "sqrt"
                                  else rng.normal(size=value.shape)).astype(np.float16)
    reference = evaluate(graph, inputs)
    with open_device(f"simulator?arithmetic={arithmetic}") as device:
        executable = device.load(program)
        got = executable.run({k: (v.view(np.uint8) if v.dtype == bool else v).reshape(
            program.buffer(k).layout.shape[:2] + program.buffer(k).layout.shape[3:]) for k, v in inputs.items()})
    worst = 0.0
    for value in graph.outputs:
        want = reference[value.name].astype(np.float64).ravel()
        have = got[value.name].astype(np.float64).ravel()
        allowed = tolerance(graph) * np.maximum(1.0, np.abs(want))
        worst = max(worst, float(np.max(np.abs(have - want) / allowed)))
    return worst


def tolerance(graph):
    """Error allowed relative to max(1, |value|): one fp16 rounding, more where a table approximates."""
    ops = {node.op for node in graph.nodes}
    if ops & {"gelu", "silu"}:
        return 1.5e-2
    if ops & {"sigmoid", "tanh", "exp", "sqrt", "softmax", "layer_norm"}:
        return 4e-3
    return FP16


def test_records_compute_their_mil(corpus, materialise, tmp_path):
    names = record_names(corpus)
    failed = {}
    for name in names:
        folder = tmp_path / name
        worst = check_record(corpus, name, materialise, folder, "auto")
        if not worst <= 1:
            failed[name] = worst
    assert not failed
    assert len(names) >= 40
