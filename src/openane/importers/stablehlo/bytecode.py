"""StableHLO bytecode (portable artifacts) as text, by jaxlib's own reader.

The reader is C++ made for files one trusts: it runs in a process of its own, so that a broken file ends that one.
"""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec

from openane.errors import FormatError, UnsupportedError
from openane.version import pip_line

MAGIC = b"ML\xefR"
"""How MLIR's bytecode begins."""
SLOWEST = 120
"""Seconds a file may take."""
_READ = """
import sys
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import chlo, func, stablehlo
with ir.Context() as context:
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    module = stablehlo.deserialize_portable_artifact(context, sys.stdin.buffer.read())
    sys.stdout.buffer.write(module.operation.get_asm(enable_debug_info=True).encode())
"""


def text_of(data: bytes) -> str:
    """The text of a module in bytecode. FormatError for broken ones, UnsupportedError without jaxlib."""
    if find_spec("jaxlib") is None:
        raise UnsupportedError("StableHLO bytecode", "needs the jaxlib package", remedy=f"{pip_line('jax')}, "
                               "or write the module as text: exported.mlir_module()")
    try:
        done = subprocess.run([sys.executable, "-c", _READ], input=data, capture_output=True, timeout=SLOWEST,
                              check=False)
    except subprocess.TimeoutExpired:
        raise FormatError("StableHLO bytecode is read in little time", expected=f"at most {SLOWEST} s",
                          found="more") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise FormatError(f"StableHLO bytecode cannot be read: {said[-1][:200] if said else 'the reader broke off'}")
    return done.stdout.decode(errors="replace")
