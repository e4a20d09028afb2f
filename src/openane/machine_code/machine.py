"""The machine code of loops, as functions: kept beside their source, or in the user's cache folder where that cannot be
written, so that only the first process on a machine compiles them, and no two at once. Others do not import numba,
which takes longer than running most networks once.

What is kept depends on the loops' source, on numba, on LLVM and on the processor. It is loaded by llvmlite, and called
by ctypes: loops do not hold the interpreter while they run. On systems where that was not tried loops are called by
numba, and compiled in every process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from ctypes import CFUNCTYPE, c_bool, c_double, c_float, c_int, c_int64, c_void_p, py_object
from hashlib import sha256
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from openane.cache import Cache, default_folder, source_digest
from openane.machine_code.described import ENTRY, NEEDED, SEQUENCE, TaskLoop
from openane.machine_code.records import RecordLayout, Sequencer
from openane.machine_code.turns import is_taken, turn

SYSTEMS = ("linux", "darwin")
HEADER = object.__basicsize__
PLAIN_HEADER = 16
"""Bytes an object of CPython begins with, where threads share one lock and nothing is watched."""
CODE = "code.o"
SOURCES = ("machine_code", "simulator/compiled", "simulator/arithmetic/compiled.py")
PASSED = {"int64": c_int64, "float32": c_float, "boolean": c_bool}
WITHOUT_EFFECT = ("NUMBA_NUM_THREADS", "NUMBA_CACHE_DIR")
Function = Callable[..., Any]


class Functions(list[Function]):
    """Some loops as functions. `sequencer` runs records of them; None where numba calls them."""

    sequencer: Sequencer | None = None


def functions(loops: Sequence[TaskLoop], name: str) -> Functions:
    """Some loops as functions, kept or compiled now; `name` says what they are. ImportError without numba."""
    found = kept(loops)
    if found is not None:
        return found
    with turn(_locks(loops)):
        return kept(loops) or _made(loops, name)


def _made(loops: Sequence[TaskLoop], name: str) -> Functions:
    """Some loops, compiled now."""
    from openane.machine_code import building

    if not _is_tried():
        return Functions(building.dispatched(loops))
    try:
        code = building.built(loops)
    except building.NotAlone:
        return Functions(building.dispatched(loops))
    key = _key(loops)
    any(folder.put(key, {CODE: code}, f"machine code of {name}") for folder in _folders())
    return _loaded(loops, code)


def is_made_elsewhere(loops: Sequence[TaskLoop]) -> bool:
    """Whether another process compiles some loops just now. ImportError without numba."""
    return is_taken(_locks(loops))


def _locks(loops: Sequence[TaskLoop]) -> list[Path]:
    """Where the lock of those who compile some loops may lie: beside where their code is kept."""
    key = _key(loops)
    return [folder.folder / f"{key}.lock" for folder in _folders()] if _is_tried() else []


def kept(loops: Sequence[TaskLoop]) -> Functions | None:
    """Some loops as functions, or None where their code was not kept. ImportError without numba."""
    key = _key(loops)
    for folder in _folders() if _is_tried() else ():
        files = folder.mapped(key)
        if files is not None and CODE in files:
            return _loaded(loops, bytes(files[CODE]))
    return None


def _is_tried() -> bool:
    """Whether this is a system on which code is kept."""
    return sys.platform in SYSTEMS and sys.implementation.name == "cpython" and HEADER == PLAIN_HEADER


def _folders() -> Iterator[Cache]:
    """Where code is kept, the best first."""
    yield Cache(Path(__file__).parent / "__pycache__")
    with suppress(OSError):
        yield Cache(default_folder() / "loops")


def _key(loops: Sequence[TaskLoop]) -> str:
    """A digest of all that the code depends on. ImportError without numba."""
    spec = find_spec("numba")
    if spec is None or spec.origin is None:
        raise ImportError(NEEDED)
    from llvmlite import __version__ as version
    from llvmlite import binding

    said = Path(spec.origin).with_name("_version.py")
    settings = sorted((name, value) for name, value in os.environ.items()
                      if name.startswith("NUMBA_") and name not in WITHOUT_EFFECT)
    text = repr((source_digest(SOURCES), [(loop.name, loop.takes, loop.gives) for loop in loops], version,
                 said.read_bytes() if said.is_file() else b"", settings, HEADER, binding.get_process_triple(),
                 binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()))
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def _loaded(loops: Sequence[TaskLoop], code: bytes) -> Functions:
    """The functions of an object."""
    from llvmlite import binding

    binding.initialize_native_target()
    binding.initialize_native_asmprinter()
    machine = binding.Target.from_triple(binding.get_process_triple()).create_target_machine(
        opt=0, reloc="default", codemodel="jitdefault", jit=True)
    engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
    engine.add_object_file(binding.ObjectFileRef.from_data(code))
    engine.finalize_object()
    found = Functions(_function(loop, engine, engine.get_function_address(ENTRY.format(number)))
                      for number, loop in enumerate(loops))
    called = CFUNCTYPE(c_int64, c_void_p, c_int64, c_int64)(engine.get_function_address(SEQUENCE))
    called.engine = engine  # type: ignore[attr-defined]
    found.sequencer = Sequencer(RecordLayout.of(loops), called)
    return found


def _function(loop: TaskLoop, engine: Any, address: int) -> Function:
    """A loop at an address of an engine, which lives as long as the function."""
    kinds: list[Any] = []
    spread = None
    for number, (kind, _, many) in enumerate(each.partition("*") for each in loop.takes):
        kinds += [PASSED.get(kind, py_object)] * int(many or 1)
        spread = number if many else spread
    entry = CFUNCTYPE(c_int, c_void_p, *kinds)(address)
    entry.engine = engine  # type: ignore[attr-defined]
    gives: Any = (c_double if loop.gives == ("float64",) else c_int64) * max(1, len(loop.gives))

    def call(*arguments: Any) -> Any:
        found = gives()
        status = entry(found, *arguments)
        if status:
            raise _refused(loop, status)
        return tuple(found[:])

    if spread is not None:
        return lambda *arguments: call(*arguments[:spread], *arguments[spread], *arguments[spread + 1:])
    return (lambda *arguments: call(*arguments)[0]) if len(loop.gives) == 1 else call


def _refused(loop: TaskLoop, status: int) -> Exception:
    """What went wrong in a loop."""
    if status < 0:
        return RuntimeError(f"the loop {loop.name} divided by zero")
    return TypeError(f"argument {status} of the loop {loop.name} is no array of {loop.takes[status - 1]}")
