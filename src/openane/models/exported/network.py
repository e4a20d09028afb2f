"""A model of the transformers library as a graph: its own code, exported by PyTorch for inputs of one shape.

This is how families come in that are not described here by rules. PyTorch and transformers are asked for when such a
model is loaded; a compiled one needs neither.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openane.errors import FormatError, UnsupportedError
from openane.graph import Graph
from openane.importers.onnx.naming import renamed
from openane.importers.torch import load_torch
from openane.version import pip_line

TASK_OUTPUTS = ("logits", "pred_boxes", "predicted_depth")
OUTPUTS = (*TASK_OUTPUTS, "image_embeds", "last_hidden_state", "pooler_output")
"""Results of the library's models that become outputs, where there are some; states are left out behind a task."""
Call = Callable[[Any, Mapping[str, Any]], Mapping[str, Any]]
"""What is computed of a model and inputs by name: results by name."""


def network(folder: Path, architecture: str) -> Any:
    """The library's model of a directory, in float32 and for inference. UnsupportedError where a library is missing or
    does not have the architecture, FormatError where it cannot read the directory."""
    transformers = _library()
    kind = getattr(transformers, architecture, None)
    if kind is None:
        raise UnsupportedError(f"the architecture {architecture}", "the installed transformers does not have it",
                               found=f"transformers {transformers.__version__}", remedy="pip install -U transformers")
    with _Quiet(transformers):
        try:
            return kind.from_pretrained(str(folder), local_files_only=True, dtype="float32").eval()
        except Exception as error:  # whatever the library meets
            what = f"{type(error).__name__}: {str(error)[:300]}"
            raise FormatError(f"transformers cannot load {folder}: {what}") from None


def graph_of(model: Any, call: Call, inputs: Mapping[str, Sequence[int]], name: str = "main",
             whole: Sequence[str] = ()) -> Graph:
    """What `call` computes of a model and inputs of these shapes as a graph called `name`, its inputs and outputs
    called as the library calls them; inputs of `whole` are whole numbers. UnsupportedError where PyTorch cannot export
    it, or what it exports has no counterpart."""
    import torch

    class Called(torch.nn.Module):  # type: ignore[misc, unused-ignore]
        """The model, called with its inputs by name."""

        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, **given: Any) -> tuple[Any, ...]:
            results = call(self.model, given)
            names[:] = results
            return tuple(results.values())

    names: list[str] = []
    examples = {key: torch.zeros(*shape, dtype=torch.long if key in whole else torch.float32)
                for key, shape in inputs.items()}
    with _Quiet(_library()), torch.no_grad():
        try:
            program = torch.export.export(Called(), (), examples)
        except Exception as error:  # whatever PyTorch meets
            raise UnsupportedError(type(model).__name__, "PyTorch cannot export it",
                                   found=f"{type(error).__name__}: {str(error)[:300]}",
                                   remedy="there is none but another version of torch or transformers") from None
    if not names:
        raise UnsupportedError(type(model).__name__, "none of its results becomes an output", limit=", ".join(OUTPUTS),
                               remedy="export it with torch.export yourself, and compile that")
    graph = load_torch(program)
    outputs = {value.name: (id(value), key) for value, key in zip(graph.outputs, names, strict=True)}
    types = {f"dtype:{key}": graph.metadata[f"dtype:{before}"] for before, (_, key) in outputs.items()}
    kept = {key: text for key, text in graph.metadata.items() if key.removeprefix("dtype:") not in outputs}
    return replace(renamed(graph, dict(outputs.values())), name=name, metadata=kept | types)


def all_outputs(model: Any, given: Mapping[str, Any]) -> Mapping[str, Any]:
    """What a model gives for its inputs: the results of its task, or else its states."""
    found = model(**given)
    tensors = {key: found[key] for key in OUTPUTS if key in found and hasattr(found[key], "shape")}
    task = [key for key in TASK_OUTPUTS if key in tensors]
    return {key: tensors[key] for key in task} if task else tensors


def _library() -> Any:
    try:
        import torch  # noqa: F401
        import transformers
    except ImportError as missing:
        raise UnsupportedError("a family that comes in by PyTorch's export", f"needs the {missing.name} package",
                               remedy=pip_line("pretrained")) from None
    return transformers


class _Quiet:
    """Neither warnings nor progress of the libraries while it is entered."""

    def __init__(self, transformers: Any) -> None:
        self._logging = transformers.utils.logging
        self._warnings = warnings.catch_warnings()

    def __enter__(self) -> None:
        self._before = self._logging.get_verbosity()
        self._bars = self._logging.is_progress_bar_enabled()
        self._logging.set_verbosity_error()
        self._logging.disable_progress_bar()
        self._warnings.__enter__()
        warnings.simplefilter("ignore")

    def __exit__(self, *raised: object) -> None:
        self._warnings.__exit__(None, None, None)
        self._logging.set_verbosity(self._before)
        if self._bars:
            self._logging.enable_progress_bar()
