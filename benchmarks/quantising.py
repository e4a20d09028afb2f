"""Weights in fewer bits: error, size and modelled time of three networks, form by form, beside fp16.

    python benchmarks/quantising.py [--json] [minilm] [resnet50] [decoder]

MiniLM has the published weights of all-MiniLM-L6-v2 where examples/minilm/requirements.txt is installed (a line says
so, and drawn ones where not) and is measured on sentences; ResNet-50 and a decode step of a 15-million-number Llama
have drawn weights, whose errors are those of networks nobody trained. Errors are relative (root of squared differences
by that of values), of embeddings, scores before the softmax, and scores of tokens, against the same network with fp16
weights, all computed in fp32, on samples that weights were not rounded by; the cosine is the smallest of a sample's.
Bytes are those of the model's file, and of what the engine reads for an inference of the program for H13; the time is
modelled for M1.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from networks.language import STORIES15M, RandomWeights, decode_step
from networks.topologies import images, topology
from networks.transformers import minilm as drawn_minilm

import openane as ane
from openane.graph import Graph
from openane.importers import load_onnx
from openane.ops.drawn_inputs import drawn
from openane.ops.evaluate import evaluate, evaluate_together
from openane.quantization import Quantized
from openane.quantization.modelled import modelled

EXAMPLE = Path(__file__).parents[1] / "examples" / "minilm"
TOKENS = 64
HELD = 63
APART = 4
"""Every fourth sentence, or so many drawn samples, are measured on and not rounded by."""
FORMS: Mapping[str, Mapping[str, Any]] = {
    "int8, nearest": {"form": "int8", "calibrate": False}, "int8": {"form": "int8"},
    "int8-blocks, nearest": {"form": "int8-blocks", "calibrate": False}, "int8-blocks": {"form": "int8-blocks"},
    "palette6, nearest": {"form": "palette6", "calibrate": False}, "palette6": {"form": "palette6"},
    "palette4, nearest": {"form": "palette4", "calibrate": False}, "palette4": {"form": "palette4"},
    "sparse, half zeros": {"form": "sparse", "calibrate": False},
    "auto, error 0.005": {"form": "auto", "max_error": 0.005}, "auto, error 0.02": {"form": "auto", "max_error": 0.02}}
Samples = Sequence[Mapping[str, np.ndarray]]
Network = tuple[Graph, Samples, Samples]
"""A graph, samples to round by, and others to measure on."""


@dataclass(frozen=True, slots=True)
class Row:
    """A network in a form."""

    network: str
    form: str
    weights: str
    error: float
    cosine: float
    file_bytes: int
    engine_bytes: int
    milliseconds: float

    def __str__(self) -> str:
        return (f"{self.network:<10} {self.form:<20} {self.weights:>10} {self.error:9.3%} {self.cosine:9.5f} "
                f"{self.file_bytes / 1e6:8.2f} MB {self.engine_bytes / 1e6:8.2f} MB {self.milliseconds:9.3f} ms")


def minilm() -> Network:
    """The encoder of examples/minilm and sentences of different topics; drawn weights and vectors without its file."""
    sys.path.insert(0, str(EXAMPLE))
    from network import build_graph
    from weights import INSTALL, load_weights, model_folder

    folder = model_folder()
    if folder is None:
        print(f"MiniLM with drawn weights: the published ones need {INSTALL}", file=sys.stderr)
        graph = load_onnx(drawn_minilm(TOKENS))
        several = [drawn(graph, seed) for seed in range(4 * APART)]
        return graph, several[APART:], several[:APART]
    from tokenizers import Tokenizer

    weights = load_weights(folder)
    words = weights["embeddings.words"].astype(np.float16)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.enable_truncation(TOKENS)
    tokenizer.enable_padding(length=TOKENS)
    found = [tokenizer.encode(line) for line in (EXAMPLE / "sentences.txt").read_text().splitlines()]
    samples = [{"words": words[each.ids][None], "mask": np.array(each.attention_mask, np.float16)[None, :, None]}
               for each in found]
    rest = [sample for place, sample in enumerate(samples) if place % APART]
    return build_graph(weights, TOKENS), rest, samples[::APART]


def resnet50() -> Network:
    """The classifier up to its scores, six images to round by and two to measure on."""
    graph = load_onnx(topology("resnet50"))
    scores = next(node["x"] for node in reversed(graph.nodes) if node.op == "softmax")
    cut = replace(graph, outputs=(scores,), nodes=tuple(node for node in graph.nodes if node.op != "softmax"
                                                        and not set(graph.outputs) & set(node.outputs)))
    samples = [{graph.inputs[0].name: image[None]} for image in images(8, 5)]
    return cut, samples[2:], samples[:2]


def decoder() -> Network:
    """One token on top of 63 others."""
    graph = load_onnx(decode_step(STORIES15M, RandomWeights(STORIES15M), HELD))
    samples = [drawn(graph, seed) for seed in range(64)]
    return graph, samples[APART:], samples[:APART]


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "minilm": minilm, "resnet50": resnet50, "decoder": decoder}


def rows(name: str) -> Iterator[Row]:
    """A network in every form, fp16 first."""
    graph, calibration, samples = NETWORKS[name]()
    first = graph.outputs[0].name
    wanted = [evaluate(graph, sample)[first] for sample in samples]
    plain = ane.quantize(graph, samples=[], least=1 << 60)
    yield row(name, "fp16", plain, wanted, samples)
    for form, how in FORMS.items():
        yield row(name, form, ane.quantize(graph, samples=calibration, **how), wanted, samples)


def row(name: str, form: str, found: Quantized, wanted: Sequence[np.ndarray], samples: Samples) -> Row:
    """What one form costs and saves."""
    first = found.graph.outputs[0].name
    results = evaluate_together(found.graph, samples, lambda node, several: None)
    pairs = [(result[first].ravel().astype(float), want.ravel().astype(float))
             for result, want in zip(results, wanted, strict=True)]
    norm = np.linalg.norm
    cosine = min(float(a @ b / (norm(a) * norm(b))) for a, b in pairs)
    error = float(np.sqrt(sum(norm(a - b) ** 2 for a, b in pairs) / sum(norm(b) ** 2 for _, b in pairs)))
    engine = modelled(ane.compile(found.graph))
    changed = sum(layer.form is not None for layer in found.layers)
    return Row(name, form, f"{changed} of {len(found.layers)}", error, cosine, found.after, engine.fetched,
               1e3 * engine.seconds)


def main(arguments: Sequence[str]) -> None:
    """Prints a line per network and form."""
    made: list[Row] = []
    if "--json" not in arguments:
        print(f"{'network':<10} {'form':<20} {'weights':>10} {'error':>9} {'cosine':>9} {'file':>11} "
              f"{'engine reads':>11} {'time':>11}")
    for name in [name for name in NETWORKS if name in arguments] or NETWORKS:
        for each in rows(name):
            made.append(each)
            if "--json" not in arguments:
                print(each, flush=True)
    if "--json" in arguments:
        print(json.dumps([{field: getattr(each, field) for field in Row.__slots__} for each in made], indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
