"""The options of every command that takes a model, declared and obeyed in one place: shapes the model leaves open, the
target, samples, leave for the host, and whether the cache of compiled models is used."""

from __future__ import annotations

from argparse import ArgumentParser, Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openane.chips import DEFAULT_TARGET
from openane.chips.machines import own_target
from openane.chips.machines import target as generation_of
from openane.cli.files import parse_host, parse_padding, parse_sample, parse_shape, parse_size, parse_value
from openane.cli.numbers import whole
from openane.errors import UnsupportedError
from openane.record_classes import dataclass

if TYPE_CHECKING:
    import numpy as np

    from openane.compiler.partition.hosting import AllowHost
    from openane.compiler.precision import Samples
    from openane.graph import Graph

HOST_DEFAULT = "lookups"
"""What the host may compute unless an option says otherwise, as `openane.compile` names it."""
OPTIONS: dict[str, dict[str, Any]] = {
    "--target": {"metavar": "CHIP", "help": "machine, chip or generation to compile a model for (default: that of a "
                                            f"chip or simulated device that is named, or {DEFAULT_TARGET})"},
    "--shape": {"metavar": "NAME=1x3x224x224", "type": parse_shape, "action": "append", "default": [],
                "help": "shape of an input the model leaves open; may be repeated. Alternatives such as 1x{32,64,128} "
                        "or 1x{32:128:32} make a function for each, and inputs choose among them"},
    "--pad": {"metavar": "NAME=NUMBER", "type": parse_padding, "action": "append", "default": [],
              "help": "of a model in several shapes: fill up smaller arrays for an input with this number; may be "
                      "repeated (default: a model with an attention_mask is padded with zeros, others are not)"},
    "--value": {"metavar": "NAME=NUMBER", "type": parse_value, "action": "append", "default": [],
                "help": "make a constant of an input of an ONNX model that decides how it runs, such as sr=16000; "
                        "several numbers between commas; may be repeated"},
    "--sample": {"metavar": "NAME=FILE.npy", "type": parse_sample, "action": "append", "default": [],
                 "help": "an input on which to look at the model's numbers; may be repeated. All inputs at once: an "
                         ".npz with an array for each, or a folder of such files or of .npy files named after the "
                         "inputs (default: drawn, for small models)"},
    "--precision": {"choices": ("as-is", "safe", "fast"), "default": "safe",
                    "help": "safe: evaluate the model on --sample, or drawn inputs, and move numbers that leave the "
                            "engine's range into it by powers of two; as-is: leave them; fast: as-is, and one "
                            "table for every function (default: %(default)s)"},
    "--optimise": {"metavar": "LEVEL", "type": whole(0, 3), "choices": range(4), "default": 0,
                   "help": "how far to change programs so that they take less time: 0: as Apple's compiler makes them; "
                           "1: by rules; 2, 3: also try up to 3 or 11 other ways and take what is modelled to be "
                           "fastest "
                           "(default: %(default)s)"},
    "--allow-host": {"action": "store_const", "const": True, "default": HOST_DEFAULT,
                     "help": "let the host compute whatever the engine cannot take, between engine programs, instead "
                             "of refusing the model; every such operation is listed. Without it the host computes "
                             "lookups at computed positions (embeddings) and arithmetic on integers"},
    "--on-host": {"metavar": "OPERATIONS", "dest": "allow_host", "type": parse_host, "default": HOST_DEFAULT,
                  "help": "what the host may compute where the engine cannot: lookups (the default), none, all, or MIL "
                          "operations such as lookups,scatter"},
    "--limit": {"metavar": "BYTES", "type": parse_size,
                "help": "how much a model may make of itself: bytes of constants computed from others, 500M or 4G "
                        "(default: 1G, or 32 times the constants it holds)"},
    "--no-cache": {"action": "store_true", "help": "compile a model even if it was compiled before"},
}
"""What `model_options` declares, in order."""
TARGETS: dict[str, Any] = OPTIONS["--target"] | {
    "action": "append", "help": "machine, chip or generation to compile for; several between commas, or repeated; all: "
                                f"every generation that can be compiled for (default: {DEFAULT_TARGET})"}
"""`--target` of a command that takes several."""


def model_options(parser: ArgumentParser, *only: str) -> None:
    """Declares the options of `OPTIONS`, or some `only`: those that make sense for a command."""
    for name in only or OPTIONS:
        parser.add_argument(name, **OPTIONS[name])


@dataclass(frozen=True, slots=True)
class Compilation:
    """How one model is to be compiled: the arguments of `openane.compiler.compile` besides the graph, the samples among
    them, and whether the cache has the model already."""

    target: str
    allow_host: AllowHost
    samples: Samples | None
    cache: bool
    from_cache: bool
    precision: str
    optimise: int

    @property
    def arguments(self) -> dict[str, Any]:
        """What to pass to `compile`."""
        return {"target": self.target, "allow_host": self.allow_host, "samples": self.samples, "cache": self.cache,
                "precision": self.precision, "optimise": self.optimise}


def reading(options: Namespace) -> dict[str, Any]:
    """How the options say to read a model: arguments of `openane.importers.load_graph` besides the path and the
    function."""
    return {"shapes": dict(options.shape), "values": dict(options.value), "limit": options.limit}


def chosen_target(options: Namespace, chip: str | None = None) -> str:
    """What to compile for: the target that is named, else what `chip`, a machine, chip or generation, executes, else
    the default."""
    named: str | None = options.target
    return named or (own_target(chip) if chip else DEFAULT_TARGET)


def samples_of(graph: Graph, options: Namespace) -> Samples | None:
    """The inputs to evaluate a model on, and to look on for numbers that leave fp16: those given, else drawn ones for a
    small model. UnsupportedError for a name that is no input."""
    from openane.compiler.inspect.fp16_concerns import drawn_samples

    return given_samples(graph, options) or drawn_samples(graph)


def given_samples(graph: Graph, options: Namespace) -> list[Mapping[str, np.ndarray]]:
    """The samples that --sample names: those of files and folders, else one of single arrays; one array needs no name
    where there is one input. UnsupportedError for a name that is no input."""
    if not options.sample:
        return []
    from openane.quantization import read_samples

    named = [(name or _only_input(graph, path), path) for name, path in options.sample]
    arrays = _named_arrays(graph, {name: path for name, path in named if name})
    whole = [sample for name, path in named if not name for sample in read_samples(path)]
    return [{**sample, **arrays} for sample in whole or ([{}] if arrays else [])]


def _only_input(graph: Graph, path: Path) -> str:
    """The name of the only input, for a file of one array; none otherwise."""
    return graph.inputs[0].name if path.suffix == ".npy" and len(graph.inputs) == 1 else ""


def _named_arrays(graph: Graph, files: Mapping[str, Path]) -> dict[str, np.ndarray]:
    """The arrays of single inputs. UnsupportedError for a name that is no input."""
    from openane.numpy_files import read_npy

    known = [value.name for value in graph.inputs]
    unknown = next((name for name in files if name not in known), None)
    if unknown is not None:
        raise UnsupportedError(f"--sample {unknown}", "there is no input of this name", found=unknown,
                               limit=", ".join(known) or "no inputs at all")
    return {name: read_npy(path) for name, path in files.items()}


def compilation(graph: Graph, options: Namespace, cache: bool = True, chip: str | None = None) -> Compilation:
    """How the options say to compile a graph, without a target for that of `chip`; the cache is used unless they or the
    caller say otherwise."""
    samples, target = samples_of(graph, options), chosen_target(options, chip)
    cache = cache and not options.no_cache
    return Compilation(target, options.allow_host, samples, cache,
                       cache and in_cache(graph, target, options, samples), options.precision, options.optimise)


def in_cache(graph: Graph, target: str, options: Namespace, samples: Samples | None = None) -> bool:
    """Whether the cache holds what the options make of a model. The target is resolved first, as the compiler does
    it."""
    from openane.cache import Cache
    from openane.compiler.cache import model_key
    from openane.ops.optimisation import with_level

    try:
        folder = Cache().folder
    except OSError:
        return False
    key = model_key(with_level(graph, options.optimise), generation_of(target).name, options.allow_host, samples,
                    precision=options.precision)
    return (folder / key).is_dir()


def refuse_for_compiled(path: Path, options: Namespace, targets: Sequence[str]) -> None:
    """UnsupportedError for options that say how to compile a model where the file is compiled already, for `targets`.
    A target that a bundle lacks is added by compiling for all of them."""
    wanted = options.target
    if wanted is not None and (generation := generation_of(wanted).name) not in targets:
        every = ",".join([*targets, generation])
        command = f"{every}: ane compile MODEL --target {every} -o {path}" if path.is_dir() else wanted
        raise UnsupportedError(f"--target {wanted}", f"{path} is compiled already, and holds no program for "
                               f"{generation}", limit=", ".join(targets), found=generation,
                               remedy=f"compile its model with --target {command}")
    for name, given in (("--shape", options.shape), ("--value", options.value), ("--sample", options.sample),
                        ("--pad", options.pad),
                        ("--optimise", options.optimise != OPTIONS["--optimise"]["default"]),
                        ("--precision", options.precision != OPTIONS["--precision"]["default"])):
        if given:
            raise compiled_already(path, name)


def compiled_already(path: Path, option: str) -> UnsupportedError:
    """The error for an option that has a meaning for models alone."""
    return UnsupportedError(option, f"{path} is compiled already", remedy=f"compile its model with {option}")
