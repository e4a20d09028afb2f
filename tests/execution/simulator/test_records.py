"""Recorded compilations of Apple's compiler: their tasks, with constants packed here, compute what the MIL says."""

import hashlib
import importlib.util
import json

import numpy as np
import pytest
from support.h13 import table_bytes
from support.records import record_tasks

from openane.chips import get_chip
from openane.compiler import compile
from openane.devices import open_device
from openane.engine import Convolution, DType, Space, sources
from openane.errors import UnsupportedError
from openane.importers.mil import load_mil
from openane.ops import tables
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


class CannotPack(Exception):
    """The constants of a record cannot be made here."""


def constants_of(record, graph, operations):
    """The constant section: what our compiler packs for the same MIL, at the places the record's tasks read."""
    section = bytearray(record["constant"]["size"])
    wanted = [operation for operation in operations if reads_constants(operation)]
    if not wanted:
        return bytes(section)
    program = compile(graph).program
    ours = [operation for task in program.tasks if reads_constants(operation := CHIP.operation(task.words))]
    if len(ours) != len(wanted):
        raise CannotPack(f"{len(ours)} tasks of ours read constants, {len(wanted)} of the record")
    for theirs, mine in zip(wanted, ours, strict=True):
        place_vectors(section, theirs, mine, program.constants)
        place_streams(section, theirs, mine, program.constants)
    return bytes(section)


def reads_constants(operation):
    """Whether a task reads the constant section, as coefficients or as an operand."""
    held = getattr(operation, "coefficients", None)
    return (held is not None and 1 in held.slots) or any(
        a.space is Space.MEMORY and a.slot == 1 for a in sources(operation))


def place_vectors(section, theirs, mine, constants):
    """Constant operands, byte for byte."""
    for place, source in zip(sources(theirs), sources(mine), strict=True):
        if place.space is Space.MEMORY and place.slot == 1:
            if place.strides != source.strides or place.shape != source.shape:
                raise CannotPack(f"{source} is not laid out as {place}")
            (low, high), (start, end) = place.span, source.span
            section[low:high] = constants[start:end]


def place_streams(section, theirs, mine, constants):
    """Coefficient streams, core by core; a table alone goes wherever a core reads it."""
    held = getattr(theirs, "coefficients", None)
    if held is None:
        return
    if held.table and not held.weights:
        first = mine.coefficients.table.streams.start
        table = constants[first:first + 128]
        if graph_inverts(theirs):
            table = table_bytes(tables.inverse())
        for stream in held.table.streams:
            section[stream.offset:stream.offset + 128] = table
        return
    packed = {stream.core: stream for stream in (mine.coefficients.weights or mine.coefficients.bias).streams}
    for stream in (held.weights or held.bias).streams:
        if stream.core not in packed or packed[stream.core].size != stream.size:
            raise CannotPack(f"core {stream.core} reads {stream.size} bytes")
        start = packed[stream.core].offset
        section[stream.offset:stream.offset + stream.size] = constants[start:start + stream.size]


def graph_inverts(operation):
    """A sum over channels behind a table is how Apple's compiler forms 1 / sum in a softmax."""
    return isinstance(operation, Convolution) and not operation.unicast and operation.result.shape[1] == 1


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
    """Runs a record on random data: the same results as our program of the same MIL, bit for bit, and the reference's.

    Returns the worst error over the tolerance.
    """
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
        ours = device.load(compile(graph)).run(inputs)
    worst = 0.0
    for value in graph.outputs:
        same = np.array_equal(got[value.name].ravel(), ours[value.name].ravel().view(got[value.name].dtype))
        assert same, f"{name}: Apple's program and ours give different results"
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
    failed, left_out = {}, {}
    names = record_names(corpus)
    for name in names:
        try:
            worst = check_record(corpus, name, materialise, tmp_path / name, "auto")
        except (CannotPack, UnsupportedError) as reason:
            left_out[name] = str(reason)
            continue
        if not worst <= 1:
            failed[name] = worst
    assert not failed
    assert len(names) - len(left_out) >= 44, left_out
