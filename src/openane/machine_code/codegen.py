"""How numba's own library of functions is made for an object that is kept. Part of `building`.

numba makes machine code of every function it compiles, whatever calls it, and optimises that once for itself and again
inside all that calls it. Of functions that are only parts of an object nothing is run, and the object is optimised as a
whole: that takes two thirds of the time, for code as fast.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from numba.core.codegen import JITCodeLibrary, JITCPUCodegen
from numba.core.registry import cpu_target

_Library: Any = JITCodeLibrary
_Codegen: Any = JITCPUCodegen
OBJECT = "loops"
"""What the library of a whole object is called."""


class _PartLibrary(_Library):  # type: ignore[misc]
    """Functions that are never run here."""

    def _optimize_final_module(self) -> None:
        if self.name == OBJECT:
            super()._optimize_final_module()

    def _finalize_specific(self) -> None:
        """There are no addresses to look for."""

    def get_pointer_to_function(self, name: str) -> int:
        """None."""
        self._ensure_finalized()
        return 0


class _PartCodegen(_Codegen):  # type: ignore[misc]
    """Compiles for this processor, and runs nothing."""

    _library_class = _PartLibrary

    def set_env(self, env_name: str, env: Any) -> None:
        """Nothing reads it."""

    def _add_module(self, module: Any) -> None:
        """Nothing is added to what this process runs."""

    def emitted(self, library: Any) -> bytes:
        """The object of a library."""
        code: bytes = self._tm.emit_object(library._final_module)
        return code


@contextmanager
def compiling_parts() -> Iterator[Any]:
    """What functions are compiled by meanwhile. numba's compiler must be locked."""
    context: Any = cpu_target.target_context
    usual = context._internal_codegen
    context._internal_codegen = made = _PartCodegen("openane")
    try:
        yield made
    finally:
        context._internal_codegen = usual
