"""The compiler: from a model's graph to engine programs. ARCHITECTURE.md follows one convolution through it.

Names are imported when they are first used: whoever reads a compiled model needs none of what compiles one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from openane.requested import requested

if TYPE_CHECKING:
    from openane.compiler.api import compile
    from openane.compiler.functions import compile_functions
    from openane.compiler.model import CompiledModel
    from openane.compiler.partition.hosting import LOOKUPS, AllowHost
    from openane.compiler.records import Entry, HostStep, Port, ProgramStep, State, Where
    from openane.compiler.saved_model import Model
    from openane.compiler.shapes import compile_shapes
    from openane.compiler.targets import compile_for

_HOMES = {
    "LOOKUPS": "openane.compiler.partition.hosting",
    "AllowHost": "openane.compiler.partition.hosting",
    "CompiledModel": "openane.compiler.model",
    "Entry": "openane.compiler.records",
    "HostStep": "openane.compiler.records",
    "Model": "openane.compiler.saved_model",
    "Port": "openane.compiler.records",
    "ProgramStep": "openane.compiler.records",
    "State": "openane.compiler.records",
    "Where": "openane.compiler.records",
    "compile": "openane.compiler.api",
    "compile_for": "openane.compiler.targets",
    "compile_functions": "openane.compiler.functions",
    "compile_shapes": "openane.compiler.shapes",
}

__all__ = [
           "LOOKUPS",
           "AllowHost",
           "CompiledModel",
           "Entry",
           "HostStep",
           "Model",
           "Port",
           "ProgramStep",
           "State",
           "Where",
           "compile",
           "compile_for",
           "compile_functions",
           "compile_shapes",
]

__getattr__ = requested(__name__, _HOMES)
