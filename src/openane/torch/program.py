"""One exported program on a device: tensors in, tensors out."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.utils import _pytree as pytree

from openane.errors import GraphError, UnsupportedError
from openane.importers.torch import WRITTEN, load_torch
from openane.loaded import EngineOptions, ResidentGraph

Shapes = tuple[object, ...]
"""What a program is made for: shapes and element types of its tensors, other arguments as they are."""


class EngineProgram:
    """A module for arguments of one shape, compiled and loaded. It takes and gives tensors on the CPU, in the element
    types the module has; `close`, or the end of its life, frees the device's memory."""

    def __init__(self, module: torch.nn.Module, arguments: Sequence[Any], options: EngineOptions,
                 keywords: dict[str, Any] | None = None) -> None:
        """Errors are those of `load_torch`, `openane.compile` and of the device; UnsupportedError also where PyTorch
        cannot export the module, or it writes to its buffers."""
        self._exported = exported(module, arguments, keywords or {})
        graph = load_torch(self._exported)
        self._types = _result_types(self._exported)
        behind = [value.name for value in graph.outputs[len(self._types):]]
        self._written = [name.removesuffix(WRITTEN) for name in behind if name.endswith(WRITTEN)]
        computed = len(graph.outputs) - len(self._written)
        if computed != len(self._types):
            raise UnsupportedError("the module", "results are tensors, each once", found=f"{len(self._types)} results",
                                   limit=f"{computed} of them tensors that are computed")
        self._loaded = ResidentGraph(graph, options)
        self.model = self._loaded.model

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        """The module's results, in the structure it gives them; arguments that it writes to in place are written."""
        flat = pytree.tree_leaves((arguments, keywords))
        names = self._exported.graph_signature.user_inputs
        if len(flat) != len(names):
            raise GraphError(f"the program takes {len(names)} arguments, not {len(flat)}")
        feeds = {name: array_of(tensor) for name, tensor in zip(names, flat, strict=True)
                 if name in self._loaded.inputs}
        arrays = self._loaded.run(feeds)
        results = [torch.from_numpy(array).to(dtype) for array, dtype in zip(arrays, self._types, strict=False)]
        given = dict(zip(names, flat, strict=True))
        for name, array in zip(self._written, arrays[len(results):], strict=True):
            given[name].copy_(torch.from_numpy(array))
        return pytree.tree_unflatten(results, self._exported.call_spec.out_spec)

    def close(self) -> None:
        """Frees what the device holds. Closing twice does nothing."""
        self._loaded.close()


def exported(module: torch.nn.Module, arguments: Sequence[Any], keywords: dict[str, Any]) -> Any:
    """The module as a program of `torch.export`. UnsupportedError where PyTorch cannot make one, or it has states; a
    warning where it keeps running statistics."""
    try:
        with torch.no_grad():
            program = torch.export.export(module, tuple(arguments), keywords or None, strict=False)
    except Exception as error:  # whatever PyTorch raises about modules it cannot export
        said = str(error).split("\n")[0][:300]
        raise UnsupportedError("the module", "PyTorch cannot export it", found=said) from None
    written = program.graph_signature.buffers_to_mutate
    if written:
        raise UnsupportedError("the module", "it writes to its buffers", found=", ".join(written.values()),
                               remedy="call eval() on it, or export it as a model with states")
    kept = _written_in_place(program)
    if kept:
        warnings.warn(f"the module writes to its buffers ({', '.join(kept)}), which the engine does not: running "
                      "statistics stay as they are; call eval() on the norms that keep them", stacklevel=3)
    return program


def _written_in_place(program: Any) -> list[str]:
    """The buffers that a program's graph changes before it is made functional."""
    buffers = program.graph_signature.inputs_to_buffers
    nodes = [node for node in program.graph.nodes if isinstance(node.target, torch._ops.OpOverload)]
    return sorted({buffers[node.args[0].name] for node in nodes if node.target._schema.is_mutable and
                   isinstance(node.args[0], torch.fx.Node) and node.args[0].name in buffers})


def shapes_of(arguments: Any) -> Shapes:
    """What a program for these arguments is made for. UnsupportedError for arrays of numpy among them."""
    leaves, spec = pytree.tree_flatten(arguments)
    array = next((each for each in leaves if isinstance(each, np.ndarray)), None)
    if array is not None:
        raise UnsupportedError("the module", "arguments are tensors of PyTorch", found="an array of numpy",
                               remedy="torch.from_numpy(array)")
    return (str(spec), *((tuple(each.shape), each.dtype) if isinstance(each, torch.Tensor) else each
                         for each in leaves))


def _result_types(program: Any) -> list[torch.dtype]:
    """The element types of the program's results."""
    nodes = {node.name: node for node in program.graph_module.graph.nodes}
    found = [nodes[name].meta["val"] for name in program.graph_signature.user_outputs if name in nodes]
    return [value.dtype for value in found]


def array_of(tensor: torch.Tensor) -> np.ndarray:
    """A tensor as numpy has it; bfloat16 as float32, 64 bits as 32."""
    held = tensor.detach().cpu()
    wider = {torch.bfloat16: torch.float32, torch.float64: torch.float32, torch.int64: torch.int32}
    return np.asarray(held.to(wider.get(held.dtype, held.dtype)).contiguous().numpy())
