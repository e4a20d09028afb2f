"""Recorded programs of H14 to H18 on the simulator: Apple's task words compute what the MIL says."""

import hashlib
import importlib.util
import json
from pathlib import Path

import numpy as np
import pytest
from support.records import generation_words

from openane.chips import described_generations, get_chip
from openane.compiler import compile
from openane.compiler.weights.pack import pack_sparse
from openane.devices.packer import pack, unpack
from openane.engine import Packing, Space, geometry_of, sources
from openane.importers.mil import load_mil
from openane.ops.evaluate import evaluate
from openane.program import Buffer, Layout, Program, Role, Task
from openane.simulator.executable import load
from openane.simulator.sparse import expand

LATER = described_generations()[1:]
FIRST_PORT = {"h14": 4}
"""The slot of the first port, by generation; 6 for all others."""
SCRATCH = 3
TABLE = 128
HEAD = 16
"""Bytes of the text before the first task, to which tasks are aligned."""
RECORDS = {"h14": 29, "h15": 24, "h16": 26, "h17": 30, "h18": 21}
FP16 = 2.0 ** -10
POSITIVE = ("sqrt", "pow")
OTHER_CONSTANTS = Path(__file__).parents[2] / "other_constants.txt"


def tolerance(graph):
    """Error allowed relative to max(1, |value|): one fp16 rounding, more where a table approximates."""
    ops = {node.op for node in graph.nodes}
    if ops & {"gelu", "silu"}:
        return 1.5e-2
    return 4e-3 if ops & {"sigmoid", "exp", "sqrt", "pow", "real_div", "softmax", "layer_norm"} else FP16


def packed_constants(program, form):
    """What our compiler packs for the same MIL, as the generation lays it out: tables alone once each, in order, and
    zero-skipping weights in its own `form`."""
    chip = get_chip("h13")
    operations = [chip.operation(task.words) for task in program.tasks]
    held = [c for each in operations if (c := getattr(each, "coefficients", None)) is not None]
    sparse = [each for each in operations if getattr(each, "coefficients", None) in held
              and each.coefficients.packing is Packing.SPARSE]
    if sparse:
        (convolution,) = sparse
        kernel, store = convolution.kernel[1:], np.frombuffer(program.constants, np.uint8)
        weights, _ = expand(geometry_of(convolution), convolution.coefficients, store, chip.limits.coefficients, "",
                            kernel)
        weights = weights.reshape(*weights.shape[:2], -1, *kernel)
        return pack_sparse(form, weights, None, convolution.coefficients.lanes).data
    if not held or any(c.weights or not c.table for c in held):
        return bytes(program.constants)
    starts = [c.table.streams.start for c in held]
    return b"".join(bytes(program.constants[start:start + TABLE]) for start in starts)


def ports(record, graph, first):
    """Buffers of inputs and outputs, in alphabetical order of their names from slot `first` on."""
    surfaces = iter(record["tensor_descriptors"])
    stated = {name: next(surfaces) for group in (graph.inputs, graph.outputs) for name in sorted(v.name for v in group)}
    inputs = {value.name for value in graph.inputs}
    for slot, name in enumerate(sorted(stated), start=first):
        n, c, h, w = stated[name]["shape"]
        sn, sc, sh, sw = stated[name]["strides"]
        layout = Layout((n, c, 1, h, w), (sn, sc, sn, sh, sw))
        yield Buffer(name, slot, Role.INPUT if name in inputs else Role.OUTPUT, stated[name]["total_bytes"] * n, layout)


class Recorded:
    """A recorded program with constants of ours, ready to run; `digest` and `wanted` are those of its coefficients."""

    def __init__(self, name, record, graph):
        chip, offset = get_chip(name), 0
        tasks = []
        for words in generation_words(record, name):
            tasks.append(Task(words, offset))
            offset += -(-4 * len(words) // HEAD) * HEAD
        operations = [chip.operation(task.words) for task in tasks]
        first = FIRST_PORT.get(name, 6)
        buffers = [*ports(record, graph, first)]
        scratch = max([a.span[1] for op in operations for a in (*sources(op), op.result)
                       if a.space is Space.MEMORY and a.slot == SCRATCH], default=0)
        if scratch:
            buffers.append(Buffer("scratch", SCRATCH, Role.SCRATCH, scratch))
        ours = packed_constants(compile(graph).program, chip.limits.coefficients)
        kernels = record.get("kernel_section") or []
        section = kernels[0] if kernels else record["constant_section"]
        data = ours.ljust(section["size"], b"\0")
        self.digest, self.wanted = hashlib.sha256(data).hexdigest(), section["sha256"]
        stores = {}
        if kernels:
            buffers.append(Buffer("kernels", first + len(buffers), Role.STATE, len(data)))
            stores["kernels"], data = np.frombuffer(data, np.uint8).copy(), bytes(record["constant_section"]["size"])
        self._graph = graph
        self._program = Program(name, tuple(tasks), data, tuple(buffers))
        self._loaded = load(self._program, stores=stores)

    def run(self, inputs):
        """The outputs by name."""
        for name, values in inputs.items():
            pack(values, self._program.buffer(name).layout, self._loaded.buffers[name], name)
        self._loaded.run()
        stores = self._loaded.buffers
        return {value.name: unpack(self._program.buffer(value.name).layout, stores[value.name], value.shape)
                for value in self._graph.outputs}


@pytest.fixture(scope="module")
def materialise(corpus):
    spec = importlib.util.spec_from_file_location("materialise", corpus / "apple/oracles/materialise.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.main


def known_others():
    """Generation and case of records whose constants here are not Apple's."""
    lines = [line for line in OTHER_CONSTANTS.read_text().splitlines() if not line.startswith("#")]
    return {tuple(line.split()[:2]) for line in lines}


@pytest.mark.parametrize("name", LATER)
def test_recorded_programs_compute_their_mil(corpus, materialise, tmp_path, name):
    """Every record, with its coefficients (by SHA-256 those Apple packed, or listed) behind Apple's words."""
    paths = sorted((corpus / f"apple/oracles_{name}").glob("*.json"))
    rng, failed, others = np.random.default_rng(5), {}, set()
    for path in paths:
        folder = tmp_path / path.stem
        materialise(str(path), str(folder))
        graph = load_mil(folder / "model.mil", folder)
        recorded = Recorded(name, json.loads(path.read_text()), graph)
        if recorded.digest != recorded.wanted:
            others.add((name, path.stem))
        drawn = {value.name: rng.normal(size=value.shape) for value in graph.inputs}
        inputs = {each: (np.abs(values) + 0.1 if graph.nodes[-1].op in POSITIVE else values).astype(np.float16)
                  for each, values in drawn.items()}
        got, want = recorded.run(inputs), evaluate(graph, inputs)
        for each in want:
            wrong = np.abs(got[each].astype(np.float64) - want[each].astype(np.float64))
            worst = float(np.max(wrong / np.maximum(1.0, np.abs(want[each].astype(np.float64)))))
            if not worst <= tolerance(graph):
                failed[path.stem] = worst
    assert not failed
    assert len(paths) == RECORDS[name]
    assert others == {each for each in known_others() if each[0] == name}
