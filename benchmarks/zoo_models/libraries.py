"""Models as their own libraries build them: torchvision and timm by name, transformers by configuration, those of other
libraries by their class, and networks published inside Python packages.

What is built is described by files beside this one, which a stranger can follow without it: `torchvision_models.txt`
and `timm_models.txt` have a line per model (its name and the shape of an image), `transformers_models.toml` a table
per model (classes, arguments and inputs), `other_libraries.toml` a table per library with one per model (class,
arguments and inputs), `published.toml` a table per network (package, path in its wheel, inputs).
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np

FOLDER = Path(__file__).parent
SEED = 20
BATCH = 4
"""Images on which the statistics of batch norms are measured, so that activations of random weights are in range."""
PUBLISHED = "published"


@dataclass(frozen=True)
class Described:
    """One model of the lists: its name, the library it is of, and what its line or table says."""

    library: str
    name: str
    says: Mapping[str, Any]

    @property
    def key(self) -> str:
        """How it is called among all of them."""
        return f"{self.library}/{self.name}"


@dataclass(frozen=True)
class Built:
    """A module of PyTorch ready to be exported, and what its forward is called with."""

    module: Any
    arguments: tuple[Any, ...]
    keywords: dict[str, Any]


def described() -> Iterator[Described]:
    """Every model of the lists."""
    for library in ("torchvision", "timm"):
        for line in _lines(FOLDER / f"{library}_models.txt"):
            name, shape = line.split()
            yield Described(library, name, {"shape": tuple(map(int, shape.split("x")))})
    for library, file in (("transformers", "transformers_models.toml"), (PUBLISHED, "published.toml")):
        for name, table in tomllib.loads((FOLDER / file).read_text()).items() if (FOLDER / file).exists() else ():
            yield Described(library, name, table)
    for library, models in tomllib.loads((FOLDER / "other_libraries.toml").read_text()).items():
        yield from (Described(library, name, table) for name, table in models.items())


def _lines(file: Path) -> Iterator[str]:
    for line in file.read_text().splitlines() if file.exists() else ():
        if said := line.partition("#")[0].strip():
            yield said


def build(model: Described) -> Built:
    """The model with weights its library draws, and inputs that are drawn here. ImportError where a library is
    missing."""
    import torch

    _declare_kernels()
    torch.manual_seed(SEED)
    if "shape" not in model.says:
        made = _configured(model.says) if model.library == "transformers" else _of_class(model.says)
        return _with_inputs(made.eval(), model.says)
    shape = model.says["shape"]
    made = import_module("timm").create_model(model.name, pretrained=False) if model.library == "timm" \
        else _torchvision(model.name)
    _measure_batch_norms(made, lambda: made(torch.randn(BATCH, *shape[1:])))
    return Built(made.eval(), (torch.randn(shape),), {})


def _torchvision(name: str) -> Any:
    models = import_module("torchvision.models")
    wanted = signature(models.get_model_builder(name)).parameters
    plain = {"weights_backbone": None} if "weights_backbone" in wanted else {}
    return models.get_model(name, weights=None, **plain)


def _declare_kernels() -> None:
    """Lets torchvision be imported where the kernels in its wheel are for another build of PyTorch: the models need
    none of these."""
    import torch

    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, name):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")


def _measure_batch_norms(module: Any, run: Callable[[], object]) -> None:
    """Gives batch norms the statistics of what `run` makes the module compute."""
    import torch

    norms = [each for each in module.modules() if isinstance(each, torch.nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    for norm in norms:
        norm.momentum = None
    module.train()
    with torch.no_grad():
        run()
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
    module.eval()


def _configured(says: Mapping[str, Any]) -> Any:
    """A model of transformers."""
    library = import_module("transformers")

    def configuration(name: str, arguments: Mapping[str, Any]) -> Any:
        """Arguments that are tables with a `config` are configurations of their own."""
        return getattr(library, name)(**{key: configuration(value["config"], _without(value, "config"))
                                         if isinstance(value, dict) and "config" in value else value
                                         for key, value in arguments.items()})

    return getattr(library, says["model"])(configuration(says["config"], says.get("arguments", {})))


def _of_class(says: Mapping[str, Any]) -> Any:
    """A model of any library: `class` with its `arguments`, of which a table with a `class` is an object of that."""
    module, _, name = says["class"].rpartition(".")
    given = {key: _of_class(value) if isinstance(value, dict) and "class" in value else _tupled(value)
             for key, value in says.get("arguments", {}).items()}
    given |= dict.fromkeys(says.get("none", ()))
    return getattr(import_module(module), name)(*given.pop("positional", ()), **given)


def _tupled(value: Any) -> Any:
    return tuple(map(_tupled, value)) if isinstance(value, list) else value


def _without(table: Mapping[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in table.items() if key != name}


def _with_inputs(module: Any, says: Mapping[str, Any]) -> Built:
    """The part of a module that is wanted, its weights and the statistics of its batch norms in range, and inputs:
    those with a name are keywords."""
    import torch

    for step in says.get("part", "").split("."):
        module = getattr(module, step) if step else module
    with torch.no_grad():
        for weight in module.parameters() if "gain" in says else ():
            weight.mul_(says["gain"] if weight.dim() > 1 else 1)
    call = dict(says.get("call", {}))
    if all(each.get("dtype", "float32") == "float32" for each in says["inputs"]):
        several = _inputs([each | {"shape": [BATCH, *each["shape"][1:]]} for each in says["inputs"]])
        _measure_batch_norms(module, lambda: module(*several[0], **several[1]))
    arguments, keywords = _inputs(says["inputs"])
    return Built(module, arguments, keywords | call)


def _inputs(says: Sequence[Mapping[str, Any]]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What a module is called with: in order, and by name; `a.b` is within a table, `a.0` within a tuple."""
    import torch

    drawn = [(each.get("name"), _drawn(torch, each)) for each in says]
    keywords: dict[str, Any] = {}
    for name, tensor in drawn:
        outer, point, inner = (name or "").partition(".")
        if not point and outer:
            keywords[outer] = tensor
        elif inner.isdecimal():
            keywords[outer] = (*keywords.get(outer, ()), tensor)
        elif outer:
            keywords.setdefault(outer, {})[inner] = tensor
    return tuple(tensor for name, tensor in drawn if name is None), keywords


def _drawn(torch: Any, says: Mapping[str, Any]) -> Any:
    """An input: whole numbers within `range`, normal ones where the element type is a floating one."""
    dtype = getattr(torch, says.get("dtype", "float32"))
    if dtype.is_floating_point:
        low, high = says.get("range", (0, 0))
        drawn = torch.rand(says["shape"]) * (high - low) + low if high > low else torch.randn(says["shape"])
        return drawn.to(dtype)
    low, high = says.get("range", (0, 2))
    return torch.randint(low, high, says["shape"], dtype=torch.int64).to(dtype)


def published_inputs(says: Mapping[str, Any]) -> dict[str, np.ndarray]:
    """The inputs of a published network, drawn evenly from their ranges, or like text."""
    random = np.random.default_rng(SEED)
    found: dict[str, np.ndarray] = {}
    for name, each in says["inputs"].items():
        dtype = np.dtype(each.get("dtype", "float32"))
        if each.get("draw") == "strokes":
            found[name] = _strokes(random, each).astype(dtype)
        elif dtype.kind in "iub":
            found[name] = random.integers(each["low"], each["high"] + 1, each["shape"]).astype(dtype)
        else:
            found[name] = random.uniform(each["low"], each["high"], each["shape"]).astype(dtype)
    return found


def _strokes(random: np.random.Generator, says: Mapping[str, Any]) -> np.ndarray:
    """An image like text: blocks of two by two pixels in every other band of 24 rows, two fifths of them ink."""
    height, width = says["shape"][2:]
    blocks = np.kron(random.uniform(0, 1, (height // 2, width // 2)) < 0.4, np.ones((2, 2)))
    ink = blocks * (np.arange(height) // 24 % 2)[:, None]
    return np.broadcast_to(np.where(ink > 0, says["low"], says["high"]), says["shape"])
