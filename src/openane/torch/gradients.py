"""Gradients of modules on the engine: one program computes the results, another their products with what comes from
behind, the weights being inputs of both so that an optimiser may change them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from openane.compiler import compile
from openane.devices import open_device
from openane.errors import UnsupportedError
from openane.graph import Graph
from openane.importers.torch import load_torch
from openane.loaded import EngineOptions
from openane.passes.dead_code import remove_dead_code
from openane.torch.program import array_of, exported, shapes_of
from openane.training.gradient import gradient, output_name
from openane.training.gradient_weights import computable


def differentiable(module: torch.nn.Module, arguments: Sequence[Any], keywords: Mapping[str, Any],
                   options: EngineOptions, known: dict[object, Pair]) -> Any:
    """The module's one result, as a tensor that has gradients; `known` keeps the programs by shapes. UnsupportedError
    for a module of several results or an operation without a gradient rule, else errors of `EngineProgram`."""
    weights = {name: each for name, each in module.named_parameters() if each.requires_grad}
    key = shapes_of((arguments, dict(keywords), dict(weights)))
    if key not in known:
        known[key] = Pair(module, weights, arguments, keywords, options)
    given = pytree.tree_leaves((tuple(arguments), dict(keywords)))
    tensors = [each for each in given if isinstance(each, torch.Tensor)]
    return _Function.apply(known[key], *weights.values(), *tensors)


class _OfWeights(torch.nn.Module):  # type: ignore[misc]  # where PyTorch states no types
    """The module as a function of its weights, a tuple, and of its arguments."""

    def __init__(self, module: torch.nn.Module, names: Sequence[str]) -> None:
        super().__init__()
        self.module, self._names = module, tuple(names)

    def forward(self, weights: tuple[torch.Tensor, ...], arguments: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """See the module."""
        named = dict(zip(self._names, weights, strict=True))
        return torch.func.functional_call(self.module, named, arguments, keywords)


class _Weighed(torch.nn.Module):  # type: ignore[misc]  # where PyTorch states no types
    """The sum of a module's result times a tensor: its gradients are those of the result times the tensor."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module

    def forward(self, upstream: torch.Tensor, *given: Any) -> torch.Tensor:
        """See the class."""
        return (self.module(*given) * upstream).sum().reshape(1)


class Pair:
    """The programs of a module for arguments of one shape, loaded: its result, and the gradients of it."""

    def __init__(self, module: torch.nn.Module, weights: Mapping[str, torch.Tensor], arguments: Sequence[Any],
                 keywords: Mapping[str, Any], options: EngineOptions) -> None:
        given = (tuple(each.detach() for each in weights.values()), tuple(arguments), dict(keywords))
        of_weights = _OfWeights(module, tuple(weights))
        graph, self._names = _graph(of_weights, given)
        if len(graph.outputs) != 1:
            raise UnsupportedError("the module", "gradients are of one result", found=f"{len(graph.outputs)} results",
                                   remedy="return one tensor")
        self._result, shape = graph.outputs[0].name, graph.outputs[0].shape
        joint, (self._upstream, *self._given) = _graph(_Weighed(of_weights), (torch.zeros(shape), *given))
        real = [value.name for value in joint.inputs if value.dtype in ("fp16", "fp32")]
        self._real = frozenset(name for name in self._given if name in real)
        joint = _without_result(gradient(joint, joint.outputs[0].name, sorted(self._real)))
        self._device = open_device(options.device)
        try:
            self._forward, self._backward = (
                self._device.load(compile(each, options.target, options.allow_host, precision=options.precision))
                for each in (computable(graph), joint))
        except BaseException:
            self._device.close()
            raise

    def result(self, tensors: Sequence[torch.Tensor]) -> torch.Tensor:
        """What the module gives."""
        return torch.from_numpy(self._forward.run(_feeds(self._names, tensors))[self._result].copy())

    def gradients(self, tensors: Sequence[torch.Tensor], upstream: torch.Tensor) -> list[torch.Tensor | None]:
        """The gradient by each tensor; None for integers, and for what the result does not depend on."""
        feeds = _feeds([self._upstream, *self._given], [upstream, *tensors])
        found = self._backward.run(feeds)
        return [torch.from_numpy(found[output_name(name)].copy()).to(tensor.dtype)
                if name is not None and name in self._real else None
                for name, tensor in zip(self._given, tensors, strict=True)]

    def __del__(self) -> None:
        if hasattr(self, "_device"):
            self._device.close()


class _Function(torch.autograd.Function):  # type: ignore[misc]  # where PyTorch states no types
    """A pair of programs as PyTorch's autograd has functions."""

    @staticmethod
    def forward(context: Any, pair: Pair, *tensors: torch.Tensor) -> torch.Tensor:
        """The result of the first program."""
        context.pair = pair
        context.save_for_backward(*tensors)
        return pair.result(tensors).to(next((each.dtype for each in tensors if each.is_floating_point()),
                                            torch.float32))

    @staticmethod
    def backward(context: Any, upstream: torch.Tensor) -> Any:
        """The results of the second."""
        return None, *context.pair.gradients(context.saved_tensors, upstream)


def _graph(module: torch.nn.Module, given: Sequence[Any]) -> tuple[Graph, list[str | None]]:
    """The graph of a module, and the name of the input each tensor it is given becomes; None for one it does not
    read."""
    program = exported(module, given, {})
    graph = load_torch(program)
    inputs = {value.name for value in graph.inputs}
    return graph, [name if name in inputs else None for name in program.graph_signature.user_inputs]


def _feeds(names: Sequence[str | None], tensors: Sequence[torch.Tensor]) -> dict[str, Any]:
    return {name: array_of(each) for name, each in zip(names, tensors, strict=True) if name is not None}


def _without_result(graph: Graph) -> Graph:
    """The gradients alone: the forward pass has given the result."""
    kept = tuple(value for value in graph.outputs if value.name.startswith(output_name("")))
    return remove_dead_code(replace(graph, outputs=kept))
