"""OpenANE: compile, inspect, simulate and run programs for the Apple Neural Engine, on any machine.

    import openane as ane
    graph = ane.load_graph("model.onnx")
    model = ane.compile(graph, target="h13")
    outputs = ane.run(model, {"x": x})

Names are imported when they are first used: `import openane` itself needs nothing but the standard library.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from openane.errors import (
    AneError,
    DeviceError,
    FormatError,
    GraphError,
    ProgramError,
    SimulationError,
    UnsupportedError,
    VerifyError,
)
from openane.version import __version__ as __version__

if TYPE_CHECKING:
    from openane.checking import check
    from openane.compiler import Model, compile, compile_for, compile_functions, compile_shapes
    from openane.devices import open_device, run
    from openane.formats import load_program, save_program
    from openane.graph import Graph
    from openane.importers import load_graph
    from openane.importers.alternatives import load_shapes
    from openane.models.pretrained import load_pretrained
    from openane.ops.lut import Lut, lut
    from openane.program import Program
    from openane.program.diff import diff
    from openane.program.patch import edit_task
    from openane.program.verify import verify
    from openane.quantization import quantize

_HOMES = {
    "Graph": "openane.graph",
    "Lut": "openane.ops.lut",
    "Model": "openane.compiler",
    "Program": "openane.program",
    "check": "openane.checking",
    "compile": "openane.compiler",
    "compile_for": "openane.compiler",
    "compile_functions": "openane.compiler",
    "compile_shapes": "openane.compiler",
    "diff": "openane.program.diff",
    "edit_task": "openane.program.patch",
    "load_graph": "openane.importers",
    "load_pretrained": "openane.models.pretrained",
    "load_program": "openane.formats",
    "load_shapes": "openane.importers.alternatives",
    "lut": "openane.ops.lut",
    "open_device": "openane.devices",
    "quantize": "openane.quantization",
    "run": "openane.devices",
    "save_program": "openane.formats",
    "verify": "openane.program.verify",
}

__all__ = [
    "AneError", "DeviceError", "FormatError", "Graph", "GraphError", "Lut", "Model", "Program", "ProgramError",
    "SimulationError", "UnsupportedError", "VerifyError", "check", "compile", "compile_for", "compile_functions",
    "compile_shapes", "diff", "edit_task", "load_graph", "load_pretrained", "load_program", "load_shapes", "lut",
    "open_device", "quantize", "run", "save_program", "verify",
]


def __getattr__(name: str) -> object:
    """Imports a public name from its room on first use (PEP 562)."""
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'openane' has no attribute {name!r}; it offers {', '.join(__all__)}")
    value = getattr(import_module(home), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
