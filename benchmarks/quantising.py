"""Weights in fewer bits: error, size and modelled time of three networks, form by form, beside fp16.

    python benchmarks/quantising.py [--json] [minilm] [resnet50] [decoder] [--form TEXT]... [--results FILE]

MiniLM has the published weights of all-MiniLM-L6-v2 where examples/minilm/requirements.txt is installed (a line says
so, and drawn ones where not), is rounded by English sentences of the dictionary WordNet (Debian's wordnet-base; where
that is not installed, of the documentation of Python's library) and measured on the sentences of the example, which are
of another source; ResNet-50 and a decode step of a 15-million-number Llama have drawn weights, whose errors are those
of networks nobody trained. Errors are relative (root of squared differences by that of values), of embeddings, scores
before the softmax, and scores of tokens, against the same network with fp16 weights, all computed in fp32, on samples
that weights were not rounded by; "own" is the error on samples of the same source that were kept apart, the cosine is
the smallest of a sample's. Bytes are those of the file, and of what the engine reads for an inference of the program
for H13; the time is modelled for M1. `--form` takes the forms whose name has the text in it. With `--results` rows are
kept in a file, and those it has are not made again: all of them take an hour and more, a row a few minutes.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from networks.language import STORIES15M, RandomWeights, decode_step
from networks.sentences import sentences
from networks.topologies import images, topology
from networks.transformers import minilm as drawn_minilm

import openane as ane
from openane.graph import Graph
from openane.importers import load_onnx
from openane.ops.drawn_inputs import drawn
from openane.quantization import Quantized
from openane.quantization.layers import constant_bytes, layers_of
from openane.quantization.measuring import outputs_of
from openane.quantization.modelled import modelled
from openane.quantization.rewrite import with_stored

EXAMPLE = Path(__file__).parents[1] / "examples" / "minilm"
TOKENS = 64
SHORT = 16
"""Tokens of the form of it that weights are rounded on: most sentences have fewer."""
SENTENCES = 12800
AT_ONCE = 8
"""Sentences of a sample to round by."""
ALL = ("int8-offsets",)
"""Forms that are rounded by all of them: what they lose is the figure to be kept to."""
FEW = 100
"""Samples that other forms are rounded by, so that they take minutes, and of which `auto`, which runs the network many
times, takes a half."""
HELD = 63
APART = 4
"""Every fourth sentence of the example, or so many drawn samples, are measured on."""
AUTO: Mapping[str, Any] = {"form": "auto"}
FP16 = "fp16"
FORMS: Mapping[str, Mapping[str, Any]] = {
    FP16: {"least": 1 << 60}, "int8, nearest": {"form": "int8", "calibrate": False}, "int8": {"form": "int8"},
    "int8-blocks, nearest": {"form": "int8-blocks", "calibrate": False}, "int8-blocks": {"form": "int8-blocks"},
    "int8-blocks of 16": {"form": "int8-blocks", "block": 16}, "int8-blocks of 8": {"form": "int8-blocks", "block": 8},
    "int8-offsets, nearest": {"form": "int8-offsets", "calibrate": False}, "int8-offsets": {"form": "int8-offsets"},
    "int8-offsets of 16": {"form": "int8-offsets", "block": 16},
    "int8-columns, nearest": {"form": "int8-columns", "calibrate": False}, "int8-columns": {"form": "int8-columns"},
    "palette6, nearest": {"form": "palette6", "calibrate": False}, "palette6": {"form": "palette6"},
    "palette4, nearest": {"form": "palette4", "calibrate": False}, "palette4": {"form": "palette4"},
    "sparse, half zeros": {"form": "sparse", "calibrate": False},
    "auto, error 0.005": {**AUTO, "max_error": 0.005}, "auto, error 0.01": {**AUTO, "max_error": 0.01},
    "auto, error 0.02": {**AUTO, "max_error": 0.02}}
Samples = Sequence[Mapping[str, np.ndarray]]


@dataclass(frozen=True, slots=True)
class Network:
    """A graph, samples to measure on, the graph weights are rounded on, which has the same, and samples to round by,
    of so many inputs at once."""

    graph: Graph
    samples: Samples
    rounded_on: Graph
    calibration: Samples
    at_once: int = 1


@dataclass(frozen=True, slots=True)
class Row:
    """A network in a form."""

    network: str
    form: str
    samples: int
    weights: str
    error: float
    own: float | None
    cosine: float
    file_bytes: int
    engine_bytes: int
    milliseconds: float

    def __str__(self) -> str:
        return (f"{self.network:<10} {self.form:<21} {self.samples:>7} {self.weights:>9} {self.error:9.3%} "
                f"{'' if self.own is None else format(self.own, '.3%'):>9} {self.cosine:9.5f} "
                f"{self.file_bytes / 1e6:8.2f} MB {self.engine_bytes / 1e6:8.2f} MB {self.milliseconds:9.3f} ms")


def minilm() -> Network:
    """The encoder of examples/minilm; drawn weights and vectors without its file."""
    sys.path.insert(0, str(EXAMPLE))
    from network import build_graph
    from weights import INSTALL, load_weights, model_folder

    folder = model_folder()
    if folder is None:
        print(f"MiniLM with drawn weights: the published ones need {INSTALL}", file=sys.stderr)
        graph = load_onnx(drawn_minilm(TOKENS))
        several = [drawn(graph, seed) for seed in range(4 * APART)]
        return Network(graph, several[:APART], graph, several[APART:])
    from tokenizers import Tokenizer

    weights = load_weights(folder)
    words = weights["embeddings.words"].astype(np.float16)
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))

    def looked_up(lines: Sequence[str], tokens: int, at_once: int = 1) -> Samples:
        tokenizer.enable_truncation(tokens)
        tokenizer.enable_padding(length=tokens)
        several = tokenizer.encode_batch(list(lines))
        return [{"words": words[[each.ids for each in few]],
                 "mask": np.array([each.attention_mask for each in few], np.float16)[:, :, None]}
                for few in (several[first:first + at_once] for first in range(0, len(several), at_once))]

    lines = (EXAMPLE / "sentences.txt").read_text().splitlines()
    single = sentences(SENTENCES)
    return Network(build_graph(weights, TOKENS), looked_up(lines[::APART], TOKENS),
                   build_graph(weights, SHORT, AT_ONCE),
                   looked_up(single[:len(single) // AT_ONCE * AT_ONCE], SHORT, AT_ONCE), AT_ONCE)


def resnet50() -> Network:
    """The classifier up to its scores, six images to round by and two to measure on."""
    graph = load_onnx(topology("resnet50"))
    scores = next(node["x"] for node in reversed(graph.nodes) if node.op == "softmax")
    cut = replace(graph, outputs=(scores,), nodes=tuple(node for node in graph.nodes if node.op != "softmax"
                                                        and not set(graph.outputs) & set(node.outputs)))
    samples = [{graph.inputs[0].name: image[None]} for image in images(8, 5)]
    return Network(cut, samples[:2], cut, samples[2:])


def decoder() -> Network:
    """One token on top of 63 others."""
    graph = load_onnx(decode_step(STORIES15M, RandomWeights(STORIES15M), HELD))
    samples = [drawn(graph, seed) for seed in range(64)]
    return Network(graph, samples[:APART], graph, samples[APART:])


NETWORKS: Mapping[str, Callable[[], Network]] = {
    "minilm": minilm, "resnet50": resnet50, "decoder": decoder}


def rows(name: str, forms: Sequence[str]) -> Iterator[Row]:
    """A network in forms, by their names."""
    network = NETWORKS[name]()
    first = network.graph.outputs[0].name
    wanted = [each[first] for each in outputs_of(network.graph, network.samples)]
    for form in forms:
        how = FORMS[form]
        samples = network.calibration[:used(form)]
        found = ane.quantize(network.rounded_on, samples=samples, **how)
        yield row(name, form, network, found, wanted, len(samples) * network.at_once)


def used(form: str) -> int | None:
    """How many samples a form is rounded by at most; None for all. Without calibration they measure `own` alone."""
    how = FORMS[form]
    if "form" not in how:
        return 0
    if how["form"] == "auto":
        return FEW // 2
    return None if form in ALL else FEW


def kept(file: Path | None) -> dict[tuple[str, str], Row]:
    """The rows of a file, by network and form."""
    lines = file.read_text().splitlines() if file is not None and file.exists() else ()
    return {(each.network, each.form): each for each in (Row(**json.loads(line)) for line in lines)}


def row(name: str, form: str, network: Network, found: Quantized, wanted: Sequence[np.ndarray],
        samples: int) -> Row:
    """What one form costs and saves."""
    graph = moved(found, network.graph)
    results = outputs_of(graph, network.samples)
    pairs = [(result[graph.outputs[0].name].ravel().astype(float), want.ravel().astype(float))
             for result, want in zip(results, wanted, strict=True)]
    norm = np.linalg.norm
    cosine = min(float(a @ b / (norm(a) * norm(b))) for a, b in pairs)
    error = float(np.sqrt(sum(norm(a - b) ** 2 for a, b in pairs) / sum(norm(b) ** 2 for _, b in pairs)))
    engine = modelled(ane.compile(graph))
    changed = sum(layer.form is not None for layer in found.layers)
    return Row(name, form, samples, f"{changed} of {len(found.layers)}", error, found.error, cosine,
               constant_bytes(graph), engine.fetched, 1e3 * engine.seconds)


def moved(found: Quantized, graph: Graph) -> Graph:
    """A graph of the same weights, by name, with those that were found."""
    if found.source is graph:
        return found.graph
    stored = {layer.weight.name: layer.stored for layer in found.layers if layer.weight and layer.stored}
    return with_stored(graph, [(layer, stored[layer.weight.name]) for layer in layers_of(graph)
                               if layer.weight.name in stored])


def main(arguments: Sequence[str]) -> None:
    """Prints a line per network and form."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("networks", nargs="*", choices=[[], *NETWORKS], default=[])
    parser.add_argument("--form", action="append", metavar="TEXT", help="part of a form's name; fp16 comes with any")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--results", type=Path, metavar="FILE", help="rows that were made, a line of JSON each")
    options = parser.parse_args(arguments)
    forms = [form for form in FORMS if form == FP16 or any(text in form for text in options.form or [""])]
    known = kept(options.results)
    made: list[Row] = []
    if not options.json:
        print(f"{'network':<10} {'form':<21} {'by':>7} {'weights':>9} {'error':>9} {'own':>9} {'cosine':>9} "
              f"{'file':>11} {'engine reads':>11} {'time':>11}")
    for name in options.networks or NETWORKS:
        old = [known[name, form] for form in forms if (name, form) in known]
        new = [form for form in forms if (name, form) not in known]
        for each in chain(old, rows(name, new) if new else ()):
            made.append(each)
            if options.results is not None and (name, each.form) not in known:
                with options.results.open("a") as file:
                    file.write(json.dumps(asdict(each)) + "\n")
            if not options.json:
                print(each, flush=True)
    if options.json:
        print(json.dumps([asdict(each) for each in made], indent=2))


if __name__ == "__main__":
    main(sys.argv[1:])
