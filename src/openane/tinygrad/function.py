"""A function of tinygrad tensors that runs on the engine: `to_engine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tinygrad import Tensor

from openane.errors import GraphError, UnsupportedError
from openane.importers.stablehlo import load_stablehlo
from openane.loaded import EngineOptions, ResidentGraph
from openane.tinygrad.operations import Translation


def to_engine(function: Callable[..., Any], *example: Tensor, **options: Any) -> TensorFunction:
    """The function on the engine, for tensors of the shapes of its example. It is called once, with tensors that stand
    for its arguments; what it computes without them is constant. `options` are the fields of `EngineOptions`. Errors
    are those of `load_stablehlo`, `openane.compile` and of the device; UnsupportedError also for operations of
    tinygrad that are not read."""
    if not callable(function) or not example or not all(isinstance(each, Tensor) for each in example):
        raise UnsupportedError("to_engine", "it takes a function and its arguments, tensors of tinygrad",
                               found=", ".join(type(each).__name__ for each in (function, *example)),
                               remedy="openane.tinygrad.to_engine(function, *example)")
    return TensorFunction(function, example, EngineOptions.of(options))


class TensorFunction:
    """A function of tensors of one shape, compiled and loaded."""

    def __init__(self, function: Callable[..., Any], example: tuple[Tensor, ...], options: EngineOptions) -> None:
        standing = [Tensor.empty(*each.shape, dtype=each.dtype) for each in example]
        found = function(*standing)
        self._several = isinstance(found, tuple | list)
        results = list(found) if self._several else [found]
        if not all(isinstance(each, Tensor) for each in results):
            raise UnsupportedError("the function", "results are tensors", found=type(found).__name__)
        self._types = [None if "weak" in each.dtype.name else each.dtype for each in results]
        self._shapes = [tuple(each.shape) for each in example]
        self._device = example[0].device
        translation = Translation([each.uop for each in standing], self._computed)
        self.loaded = ResidentGraph(load_stablehlo(translation.text([each.uop for each in results])), options)

    def __call__(self, *tensors: Tensor) -> Any:
        """The function's results. GraphError for tensors of other shapes."""
        if [tuple(each.shape) for each in tensors] != self._shapes:
            raise GraphError(f"the function is compiled for shapes {self._shapes}, found "
                             f"{[tuple(each.shape) for each in tensors]}")
        arrays = [np.asarray(each.numpy()) for each in tensors]
        found = self.loaded.run(dict(zip(self.loaded.inputs, arrays, strict=True)))
        results = [Tensor(array.reshape(-1), dtype=kind, device=self._device).reshape(array.shape)
                   for array, kind in zip(map(np.asarray, found), self._types, strict=True)]
        return tuple(results) if self._several else results[0]

    def _computed(self, uop: Any) -> np.ndarray:
        """The numbers of what depends on no argument, on the device they are on; those on none on the example's."""
        tensor = Tensor(uop)
        return np.asarray((tensor if tensor.device else tensor.clone(device=self._device)).numpy())

    def close(self) -> None:
        """Frees what the device holds. Closing twice does nothing."""
        self.loaded.close()
