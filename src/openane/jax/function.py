"""A JAX function that runs on the engine: `to_engine`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.export
import numpy as np

from openane.errors import UnsupportedError
from openane.importers.stablehlo import load_stablehlo
from openane.loaded import MOST_SHAPES, EngineOptions, ResidentGraph

Tree = Any
"""Arrays, or tuples, lists and dictionaries of them, as JAX takes and gives them."""
_NARROWER = {"float64": np.float32, "bfloat16": np.float32, "int64": np.int32, "uint64": np.int32, "uint32": np.int32}
"""What numpy arrays of a type are handed over as."""


def to_engine(function: Callable[..., Tree], *example: Tree, **options: Any) -> EngineFunction:
    """The function on the engine: JAX exports it, and what it exports is compiled for the shapes of its arguments.
    `example` are arguments it is compiled for now (arrays, or `jax.ShapeDtypeStruct`); without any it is compiled when
    it is called. `options` are the fields of `EngineOptions`. Errors are those of `load_stablehlo`, `openane.compile`
    and of the device; UnsupportedError also where JAX cannot export the function: nothing runs in JAX instead.

    What the function closes over is constant, as weights should be; arguments are inputs of the program.
    """
    made = EngineFunction(function, EngineOptions.of(options))
    if example:
        made.compile_for(*example)
    return made


class EngineFunction:
    """A function that computes on the engine. Arguments of other shapes are compiled for when they come."""

    def __init__(self, function: Callable[..., Tree], options: EngineOptions) -> None:
        """`function` may be jitted already."""
        self._function, self._options = function, options
        self._programs: OrderedDict[object, _Program] = OrderedDict()

    def __call__(self, *arguments: Tree) -> Tree:
        """The function's results, in the structure and the element types it gives them."""
        return self._program(arguments)(jax.tree.leaves(arguments))

    def compile_for(self, *arguments: Tree) -> ResidentGraph:
        """The program for such arguments, compiled if there is none."""
        return self._program(arguments).loaded

    def close(self) -> None:
        """Frees all programs; the next call compiles anew."""
        self._programs.clear()

    def _program(self, arguments: Sequence[Tree]) -> _Program:
        shapes = jax.tree.map(lambda each: jax.ShapeDtypeStruct(np.shape(each), jax.dtypes.result_type(each)),
                              tuple(arguments))
        leaves, structure = jax.tree.flatten(shapes)
        key = structure, tuple((each.shape, each.dtype) for each in leaves)
        if key not in self._programs:
            while len(self._programs) >= MOST_SHAPES:
                self._programs.popitem(last=False)
            self._programs[key] = _Program(self._function, shapes, self._options)
        self._programs.move_to_end(key)
        return self._programs[key]


class _Program:
    """The function for arguments of one shape."""

    def __init__(self, function: Callable[..., Tree], shapes: Sequence[Tree], options: EngineOptions) -> None:
        try:
            jitted = function if hasattr(function, "trace") else jax.jit(function)
            exported = jax.export.export(jitted, platforms=("cpu",))(*shapes)
        except Exception as error:  # whatever the function, or JAX, meets
            said = str(error).split("\n")[0][:300]
            raise UnsupportedError("the function", "JAX cannot export it", found=said) from None
        self.loaded = ResidentGraph(load_stablehlo(exported), options)
        self._kept, self._tree = exported.module_kept_var_idx, exported.out_tree
        self._types = [each.dtype for each in exported.out_avals]

    def __call__(self, leaves: Sequence[Any]) -> Tree:
        given = [_array(leaves[place]) for place in self._kept]
        found = self.loaded.run(dict(zip(self.loaded.inputs, given, strict=True)))
        results = [jax.numpy.asarray(array, dtype) for array, dtype in zip(found, self._types, strict=True)]
        return jax.tree.unflatten(self._tree, results)


def _array(leaf: Any) -> np.ndarray:
    """An argument as numpy has it; 64 bits as 32, bfloat16 as float32."""
    array = np.asarray(leaf)
    return array.astype(_NARROWER.get(array.dtype.name, array.dtype), copy=False)
