"""Models of torchvision and transformers under torch.compile(model, backend="openane"), beside PyTorch in fp32.

    python benchmarks/pytorch.py [NAME]...

Networks have random weights from a seed and small inputs, so that all run on the simulator in minutes. Printed are the
largest difference over the largest number of the outputs, and whether a graph ran elsewhere. `recompiled` says that
another shape was compiled for, `freed` that nothing of the engine's is left when the model is gone. Exit code 1 when an
error is above 0.05, or a model ran elsewhere.
"""

from __future__ import annotations

import gc
import sys
import warnings
import weakref
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

torch: Any = import_module("torch") if find_spec("torch") else None
BACKEND: Any = import_module("openane.torch.backend") if torch else None
ALLOWED = 0.05
SIDE = 64
"""Pixels of an image's side."""
VISION = ("resnet18", "mobilenet_v2", "mobilenet_v3_small", "squeezenet1_1", "shufflenet_v2_x0_5", "densenet121",
          "mnasnet0_5", "regnet_y_400mf", "efficientnet_b0", "vgg11_bn")
TEXT = ("BertModel", "DistilBertForSequenceClassification", "AlbertModel", "ElectraForSequenceClassification",
        "MPNetModel")
SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128,
         "vocab_size": 300, "embedding_size": 32, "dim": 64, "n_heads": 4, "n_layers": 2, "hidden_dim": 128}


def vision(name: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    """A network of torchvision, and its arguments for a batch of so many."""
    import torchvision

    def images(count: int) -> dict[str, Any]:
        return {"x": torch.randn(count, 3, SIDE, SIDE)}

    return getattr(torchvision.models, name)(weights=None), images


def text(name: str) -> tuple[Any, Callable[[int], dict[str, Any]]]:
    """A small network of transformers, and its arguments for a text of so many times eight tokens."""
    import transformers

    kind = getattr(transformers, name)
    known = kind.config_class().to_dict()
    config = kind.config_class(**{key: value for key, value in SMALL.items() if key in known})

    def tokens(count: int) -> dict[str, Any]:
        ids = torch.randint(1, 300, (1, 8 * count))
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids)}

    return kind(config), tokens


def tried(name: str, make: Callable[[str], Any]) -> tuple[float, str, bool]:
    """The largest relative error over two shapes, what is to be said, and whether all went well."""
    torch.manual_seed(0)
    model, arguments = make(name)
    model.eval()
    made: list[weakref.ref[Any]] = []
    kind = BACKEND.EngineProgram

    def watched(*given: Any) -> Any:
        program = kind(*given)
        made.append(weakref.ref(program))
        return program

    BACKEND.EngineProgram = watched
    try:
        with warnings.catch_warnings(record=True) as said, torch.no_grad():
            warnings.simplefilter("always")
            compiled = torch.compile(model, backend=BACKEND.openane)
            error = max(_error(model(**given), compiled(**given)) for given in map(arguments, (1, 2)))
    finally:
        BACKEND.EngineProgram = kind
    elsewhere = [str(each.message) for each in said if issubclass(each.category, BACKEND.EngineFallback)]
    programs = len(made)
    del compiled
    torch._dynamo.reset()
    gc.collect()
    freed = not any(each() is not None for each in made)
    notes = [f"{programs} programs", "recompiled" if programs > 1 else "not recompiled",
             "freed" if freed else "not freed", *(each[:160].replace("\n", " ") for each in elsewhere)]
    return error, ", ".join(notes), error <= ALLOWED and freed and programs > 1 and not elsewhere


def _error(wanted: Any, found: Any) -> float:
    """The largest difference over the largest number, of all tensors."""
    pairs = zip(_tensors(wanted), _tensors(found), strict=True)
    return max(float((a - b).abs().max() / a.abs().max().clamp(min=1e-6)) for a, b in pairs)


def _tensors(result: Any) -> list[Any]:
    leaves = torch.utils._pytree.tree_leaves(result)
    return [each for each in leaves if isinstance(each, torch.Tensor) and each.dtype.is_floating_point]


def main(names: list[str]) -> int:
    """See the module."""
    if torch is None or find_spec("torchvision") is None or find_spec("transformers") is None:
        print("pytorch: torch, torchvision or transformers is not installed: nothing was tried")
        return 0
    wrong = 0
    for group, make in ((VISION, vision), (TEXT, text)):
        for name in group:
            if names and name not in names:
                continue
            error, notes, good = tried(name, make)
            wrong += not good
            print(f"{name:40} error {error:.2e}  {notes}{'' if good else '  WRONG'}", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
