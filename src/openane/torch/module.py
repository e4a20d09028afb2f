"""A PyTorch module whose `forward` runs on the engine: `to_engine`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

import torch

from openane.errors import UnsupportedError
from openane.loaded import MOST_SHAPES, EngineOptions
from openane.torch.gradients import differentiable
from openane.torch.program import EngineProgram, shapes_of


def to_engine(module: torch.nn.Module, example: Any = None, **options: Any) -> EngineModule:
    """The module with its `forward` on the engine. `example` is a tensor, a tuple of arguments or a dictionary of
    keyword arguments, for which it is compiled now; without one it is compiled when it is called. `options` are the
    fields of `EngineOptions`. Errors are those of `EngineProgram`: nothing runs in PyTorch instead.

    In training mode, where gradients are enabled, tensors and weights that require them get theirs from the engine too
    (openane.torch.gradients).

    The module is used as it is: its weights are those of the result, which `state_dict` and `load_state_dict` read and
    write as ever. Changed weights, and arguments of other shapes, are compiled for when they come.
    """
    if not isinstance(module, torch.nn.Module):
        raise UnsupportedError("to_engine", "it takes a module of PyTorch", found=type(module).__name__,
                               remedy='give functions to torch.compile(function, backend="openane")')
    made = EngineModule(module, EngineOptions.of(options))
    if example is not None:
        arguments, keywords = _called(example)
        made.compile_for(*arguments, **keywords)
    return made


class EngineModule(torch.nn.Module):  # type: ignore[misc]  # where PyTorch states no types
    """A module that computes on the engine, with the attributes (config, device, dtype ...) and the state of the one it
    was made of, as whoever expects that module asks for."""

    def __init__(self, module: torch.nn.Module, options: EngineOptions) -> None:
        """`module` should be in evaluation mode: what depends on training is taken as it is when it is compiled."""
        super().__init__()
        self.__dict__["original"] = module  # no submodule of its own: names of weights stay what they are
        self.__dict__["_options"] = options
        self.__dict__["_programs"] = OrderedDict()
        self.__dict__["_differentiable"] = {}
        self.training = module.training

    def forward(self, *arguments: Any, **keywords: Any) -> Any:
        """See the module. Results carry gradients in training mode alone."""
        given = {name: each for name, each in keywords.items() if each is not None}
        if self.training and torch.is_grad_enabled():
            return differentiable(self.original, arguments, given, self._options, self._differentiable)
        return self.compile_for(*arguments, **given)(*arguments, **given)

    def compile_for(self, *arguments: Any, **keywords: Any) -> EngineProgram:
        """The program for such arguments, compiled if there is none."""
        weights = [*self.original.parameters(), *self.original.buffers()]
        key = (shapes_of((arguments, keywords)), tuple((id(each), each._version) for each in weights))
        programs: OrderedDict[object, EngineProgram] = self._programs
        if key not in programs:
            while len(programs) >= MOST_SHAPES:
                programs.popitem(last=False)
            programs[key] = EngineProgram(self.original, arguments, self._options, keywords)
        programs.move_to_end(key)
        return programs[key]

    def close(self) -> None:
        """Frees all programs; the next call compiles anew."""
        self._programs.clear()
        self._differentiable.clear()

    def state_dict(self, *arguments: Any, **keywords: Any) -> Any:
        """That of the module."""
        return self.original.state_dict(*arguments, **keywords)

    def load_state_dict(self, state_dict: Mapping[str, Any], *arguments: Any, **keywords: Any) -> Any:
        """Writes the module's weights; what was compiled of others is compiled anew."""
        return self.original.load_state_dict(state_dict, *arguments, **keywords)

    def named_parameters(self, *arguments: Any, **keywords: Any) -> Any:
        """Those of the module."""
        return self.original.named_parameters(*arguments, **keywords)

    def named_buffers(self, *arguments: Any, **keywords: Any) -> Any:
        """Those of the module."""
        return self.original.named_buffers(*arguments, **keywords)

    def train(self, mode: bool = True) -> EngineModule:
        """See torch.nn.Module; the module follows, and is compiled anew where it was in another mode."""
        if self.original.training is not mode:
            self.original.train(mode)
            self.close()
        self.training = mode
        return self

    def __getstate__(self) -> dict[str, Any]:
        """What a copy or a file holds: no programs, which are compiled when the copy is called."""
        return {**self.__dict__, "_programs": OrderedDict(), "_differentiable": {}}

    def __getattr__(self, name: str) -> Any:
        """What this module lacks and the other has."""
        if "original" not in self.__dict__:  # a copy that has nothing yet
            raise AttributeError(name)
        return getattr(self.__dict__["original"], name)


def _called(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments of an example."""
    if isinstance(example, Mapping):
        return (), dict(example)
    return tuple(example) if isinstance(example, tuple | list) else (example,), {}
