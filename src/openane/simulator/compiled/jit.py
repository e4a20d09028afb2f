"""How loops become machine code. The one module that imports numba; who imports it pays some tenths of a second.

Compiled loops are kept by numba beside their source, or in the user's cache folder where that cannot be written, so
that only the first process on a machine compiles them. They do not hold the interpreter while they run.
"""

from __future__ import annotations

from typing import Any

try:
    from numba import config, njit, types
    from numba.extending import overload
except ImportError as error:
    raise ImportError(f"compiled loops need numba: pip install 'openane[fast]' ({error})") from error
if getattr(config, "DISABLE_JIT", False):
    raise ImportError("numba is told not to compile (NUMBA_DISABLE_JIT), so that it would only be slow")


def compiled(signature: str, loop: Any) -> Any:
    """The loop for one signature, from the cache where there is one."""
    compiler: Any = njit
    try:
        return compiler(signature, nogil=True, cache=True)(loop)
    except RuntimeError:  # no folder can be written
        return compiler(signature, nogil=True)(loop)


def part(function: Any) -> Any:
    """A function that other loops call."""
    compiler: Any = njit
    return compiler(nogil=True)(function)


def chosen(function: Any, single: Any, double: Any) -> None:
    """Makes compiled loops that call `function` call `single` for a float32 and `double` for a float64."""
    choose: Any = overload

    @choose(function)
    def choice(value):  # type: ignore[no-untyped-def]
        return (lambda value: single(value)) if value == types.float32 else (lambda value: double(value))
