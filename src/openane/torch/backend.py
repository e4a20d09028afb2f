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
from copy import deepcopy
from typing import Any

import torch
from torch.fx import GraphModule
from torch.fx.node import map_arg

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
    graph = EngineGraph(module, inputs, EngineOptions.of(options or {}), _whole())
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
        self._asked = frozenset(place for place, node in enumerate(module.graph.find_nodes(op="placeholder"))
                                if _is_number(module.graph, node) and not self._static[place])
        self._numbers: set[tuple[Any, ...]] = set()

    def __call__(self, *given: Any) -> Any:
        """The graph's results: the engine's, or PyTorch's."""
        if torch.is_grad_enabled() and any(isinstance(each, torch.Tensor) and each.requires_grad for each in given):
            _say(UnsupportedError("torch.compile", "gradients are PyTorch's to compute", remedy="call the model under "
                                  "torch.no_grad(), or use openane.torch.to_engine"))
            return self._module(*given)
        arguments = self._settled(given)
        program = self._program(arguments)
        if program is None:
            return self._module(*given)
        return program(*(each for each, static in zip(arguments, self._static, strict=True)
                         if not static and isinstance(each, torch.Tensor)))

    def require(self, arguments: Sequence[Any]) -> None:
        """Compiles for shapes that are known. UnsupportedError, and others of `EngineProgram`, where that fails."""
        if all(isinstance(each, torch.Tensor | int) for each in arguments):
            settled = self._settled(arguments)
            self._programs[self._key(settled)] = self._compiled(settled)

    def _settled(self, arguments: Sequence[Any]) -> Sequence[Any]:
        """The arguments, as numbers where the graph asks nothing of them but their number: with dynamic=True PyTorch
        makes tensors of all fractions that a model holds, such as a norm's epsilon."""
        return [each.item() if place in self._asked and isinstance(each, torch.Tensor) else each
                for place, each in enumerate(arguments)]

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
        numbers = tuple(arguments[place] for place in sorted(self._asked))
        try:
            if len(self._numbers) == MOST_SHAPES and numbers not in self._numbers:
                raise UnsupportedError("torch.compile", "numbers of a graph are constants of its program",
                                       limit=f"{MOST_SHAPES} different ones", found="more",
                                       remedy="hand over a tensor for a number that changes")
            self._numbers.add(numbers)
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
        self.graph_module = _with_numbers(module, arguments)
        for place, (each, held) in enumerate(zip(arguments, static, strict=True)):
            name = f"held_{place}" if held else None
            if held:
                self.register_buffer(f"held_{place}", each.detach())
            elif not isinstance(each, torch.Tensor):
                self._numbers[place] = each if isinstance(each, float) else int(each)
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


def _is_number(graph: torch.fx.Graph, node: torch.fx.Node) -> bool:
    """Whether a graph asks nothing of an argument but its number."""
    return bool(node.users) and set(node.users) <= set(graph.find_nodes(op="call_method", target="item"))


def _with_numbers(module: GraphModule, arguments: Sequence[Any]) -> GraphModule:
    """The graph with the numbers that are known in the places of what asks for them."""
    graph = deepcopy(module.graph)
    for place, node in enumerate(graph.find_nodes(op="placeholder")):
        if isinstance(arguments[place], float) and _is_number(graph, node):
            for asked in list(node.users):
                _put(asked, arguments[place])
                graph.erase_node(asked)
    return GraphModule(module, graph)


def _put(node: torch.fx.Node, number: float) -> None:
    """Replaces what a node gives by a number."""
    def exchanged(each: torch.fx.Node) -> Any:
        return number if each is node else each

    for user in list(node.users):
        user.args, user.kwargs = map_arg(user.args, exchanged), map_arg(user.kwargs, exchanged)


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
