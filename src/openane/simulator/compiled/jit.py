"""How loops become machine code. The one module that imports numba; who imports it pays some tenths of a second.

Compiled loops are kept by numba beside their source, or in the user's cache folder where that cannot be written, so
that only the first process on a machine compiles them. They do not hold the interpreter while they run.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

try:
    from llvmlite import ir
    from numba import config, njit, types
    from numba.core import sigutils
    from numba.core.registry import cpu_target
    from numba.extending import intrinsic, overload
    from numba.np import linalg
except ImportError as error:
    raise ImportError(f"compiled loops need numba: pip install 'openane[fast]' ({error})") from error
if getattr(config, "DISABLE_JIT", False):
    raise ImportError("numba is told not to compile (NUMBA_DISABLE_JIT), so that it would only be slow")


def _import_arrays() -> None:
    """Imports what numba knows of arrays, which asks for scipy's linear algebra by importing it: that takes more than a
    tenth of a second, and no loop here uses any. It is looked for instead; whoever calls it still imports it. Another
    version of numba may ask in another way, and is left alone."""
    ask = getattr(linalg, "ensure_blas", None)
    if ask is None:
        return
    linalg.ensure_blas = lambda: None
    try:
        arrays: Any = import_module("numba.np.arraymath")
    finally:
        linalg.ensure_blas = ask
    if getattr(arrays, "ensure_blas", ask) is not ask:
        arrays.ensure_blas = ask
        if hasattr(arrays, "_HAVE_BLAS"):
            arrays._HAVE_BLAS = find_spec("scipy") is not None


_import_arrays()
CONTRACTED = frozenset({"contract"})


def of_read_only(kind: str, signature: str) -> Any:
    """The signature of a loop whose first argument is an array that is not written, of elements called `kind`, and the
    others are as in `signature`."""
    normalize: Any = sigutils.normalize_signature
    arguments, result = normalize(signature)
    first = types.Array(getattr(types, kind), 1, "C", readonly=True)
    return result(first, *arguments)


def compiled(signature: Any, loop: Any, contract: bool = False) -> Any:
    """The loop for one signature, from the cache where there is one. `contract`: see `contracted`."""
    compiler: Any = njit
    options = {"fastmath": set(CONTRACTED)} if contract else {}
    try:
        return compiler(signature, nogil=True, cache=True, **options)(loop)
    except RuntimeError:  # no folder can be written
        return compiler(signature, nogil=True, **options)(loop)


def part(function: Any) -> Any:
    """A function that other loops call."""
    compiler: Any = njit
    return compiler(nogil=True)(function)


def contracted(function: Any) -> Any:
    """A function that other loops call, in which a product and a sum may be one instruction, which rounds once."""
    compiler: Any = njit
    return compiler(nogil=True, fastmath=set(CONTRACTED))(function)


def chosen(function: Any, single: Any, double: Any) -> None:
    """Makes compiled loops that call `function` call `single` for a float32 and `double` for a float64."""
    choose: Any = overload

    @choose(function)
    def choice(value):  # type: ignore[no-untyped-def]
        return (lambda value: single(value)) if value == types.float32 else (lambda value: double(value))


def converts_halves() -> bool:
    """Whether loops are compiled for a processor that converts between fp16 and float32 by itself: AArch64 does, x86-64
    with F16C."""
    triple, _, features = cpu_target.target_context.codegen().magic_tuple()
    return triple.startswith(("aarch64", "arm64")) or "+f16c" in features.split(",")


_intrinsic: Any = intrinsic


@_intrinsic
def widened(context, word):  # type: ignore[no-untyped-def]
    """float32 behind an fp16 word (int32), by the processor."""
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.bitcast(builder.trunc(arguments[0], ir.IntType(16)), ir.HalfType())
        return builder.fpext(half, ir.FloatType())

    return types.float32(types.int32), generate


@_intrinsic
def narrowed(context, value):  # type: ignore[no-untyped-def]
    """fp16 word (int32) of a float32, ties to even, by the processor."""
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        half = builder.fptrunc(arguments[0], ir.HalfType())
        return builder.zext(builder.bitcast(half, ir.IntType(16)), ir.IntType(32))

    return types.int32(types.float32), generate
