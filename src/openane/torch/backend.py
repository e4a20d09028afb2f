"""`torch.compile(model, backend="openane")`: each graph that PyTorch finds in a model runs on the engine where it takes
it, else in PyTorch, which is said once for each reason.

A model compiled with `fullgraph=True` asks for no other way than the one it names: what the engine does not take is
refused then. Weights become constants of the program; when they are changed, it is compiled again. Where gradients are
asked for PyTorch computes, which has them.
"""

from __future__ import annotations

import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.fx import GraphModule

from openane.errors import AneError, UnsupportedError
from openane.loaded import MOST_SHAPES, EngineOptions
from openane.torch.program import EngineProgram, shapes_of

STATIC = "_dynamo_static_input_type"
"""What PyTorch marks parameters and buffers with, among the inputs of a graph."""
_SAID: set[str] = set()
"""Reasons that were given."""


class EngineFallback(UserWarning):
    """A graph that the engine does not take runs in PyTorch."""


def openane(module: GraphModule, inputs: Sequence[Any], options: dict[str, Any] | None = None) -> Callable[..., Any]:
    """What computes a graph in place of PyTorch. `options` are the fields of `EngineOptions`, as torch.compile hands
    them on. UnsupportedError for a graph that the engine does not take, where no other may stand in. PyTorch finds it
    by its name, which the package states as an entry point."""
    graph = EngineGraph(module, inputs, EngineOptions(**options or {}), _whole())
    if graph.whole:
        graph.require(inputs)
    return graph


class EngineGraph:
    """One graph of a model: its programs by the shapes of its arguments."""

    def __init__(self, module: GraphModule, inputs: Sequence[Any], options: EngineOptions, whole: bool) -> None:
        """`whole`: nothing may run elsewhere."""
        self._module, self._options, self.whole = module, options, whole
        self._static = [isinstance(each, torch.nn.Parameter) or bool(getattr(each, STATIC, None)) for each in inputs]
        self._programs: OrderedDict[object, EngineProgram | None] = OrderedDict()

    def __call__(self, *arguments: Any) -> Any:
        """The graph's results: the engine's, or PyTorch's."""
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in arguments):
            _say(UnsupportedError("torch.compile", "gradients are PyTorch's to compute", remedy="call the model under "
                                  "torch.no_grad(), or use openane.torch.to_engine"))
            return self._module(*arguments)
        program = self._program(arguments)
        if program is None:
            return self._module(*arguments)
        return program(*(each for each, static in zip(arguments, self._static, strict=True)
                         if not static and isinstance(each, torch.Tensor)))

    def require(self, arguments: Sequence[Any]) -> None:
        """Compiles for shapes that are known. UnsupportedError, and others of `EngineProgram`, where that fails."""
        if all(isinstance(each, torch.Tensor | int) for each in arguments):
            self._programs[self._key(arguments)] = self._compiled(arguments)

    def _program(self, arguments: Sequence[Any]) -> EngineProgram | None:
        key = self._key(arguments)
        if key not in self._programs:
            while len(self._programs) >= MOST_SHAPES:
                self._programs.popitem(last=False)
            self._programs[key] = self._tried(arguments)
        self._programs.move_to_end(key)
        return self._programs[key]

    def _key(self, arguments: Sequence[Any]) -> object:
        """Shapes of what changes, and which numbers the weights hold."""
        held = tuple((id(each), each._version) for each, static in zip(arguments, self._static, strict=True) if static)
        return held, shapes_of([each for each, static in zip(arguments, self._static, strict=True) if not static])

    def _tried(self, arguments: Sequence[Any]) -> EngineProgram | None:
        try:
            return self._compiled(arguments)
        except AneError as error:
            if self.whole:
                raise
            _say(error)
            return None

    def _compiled(self, arguments: Sequence[Any]) -> EngineProgram:
        bound = _Bound(self._module, arguments, self._static)
        return EngineProgram(bound, bound.changing(arguments), self._options)


class _Bound(torch.nn.Module):  # type: ignore[misc]  # where PyTorch states no types
    """A graph whose weights, and numbers such as sizes, are its own; its arguments are the other tensors."""

    def __init__(self, module: GraphModule, arguments: Sequence[Any], static: Sequence[bool]) -> None:
        super().__init__()
        self._fixed: list[str | None] = []
        self._numbers: dict[int, Any] = {}
        self.graph_module = module
        for place, (each, held) in enumerate(zip(arguments, static, strict=True)):
            name = f"held_{place}" if held else None
            if held:
                self.register_buffer(f"held_{place}", each.detach())
            elif not isinstance(each, torch.Tensor):
                self._numbers[place] = int(each)
            self._fixed.append(name)

    def changing(self, arguments: Sequence[Any]) -> list[torch.Tensor]:
        """Of a graph's arguments those of this module."""
        return [each for place, (each, name) in enumerate(zip(arguments, self._fixed, strict=True))
                if name is None and place not in self._numbers]

    def forward(self, *tensors: torch.Tensor) -> Any:
        """The graph's results."""
        left = iter(tensors)
        return self.graph_module(*(getattr(self, name) if name is not None else
                                   self._numbers[place] if place in self._numbers else next(left)
                                   for place, name in enumerate(self._fixed)))


def _whole() -> bool:
    """Whether torch.compile was asked for one graph and nothing beside it. PyTorch has no public way to learn that; a
    PyTorch that keeps it elsewhere is taken for one that was not asked."""
    try:
        from torch._dynamo.symbolic_convert import InstructionTranslator

        return bool(InstructionTranslator.current_tx().one_graph)
    except (ImportError, AttributeError):
        return False


def _say(error: AneError) -> None:
    """Says once why a graph runs in PyTorch."""
    text = str(error)
    if text not in _SAID:
        _SAID.add(text)
        warnings.warn(f"runs in PyTorch: {text}", EngineFallback, stacklevel=3)
