"""The compiler: from a model's graph to engine programs. ARCHITECTURE.md follows one convolution through it."""

from openane.compiler.api import Model, compile
from openane.compiler.functions import compile_functions
from openane.compiler.model import CompiledModel
from openane.compiler.partition.hosting import LOOKUPS, AllowHost
from openane.compiler.records import Entry, HostStep, Port, ProgramStep, State, Where
from openane.compiler.shapes import compile_shapes
from openane.compiler.targets import compile_for

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
