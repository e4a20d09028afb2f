"""OpenANE as a backend of ONNX: `onnx.backend.base.Backend`, strict, so that ONNX's own suite can judge it.

    import openane.onnx_backend as backend
    outputs = backend.run_model(model, [x])

Everything runs on the engine (the simulator, or the device $ANE_DEVICE names) or is refused with an AneError. Inputs
that decide shapes, axes or places are constants of a run: the model is compiled anew for other values of them.
Results agree with ONNX's within `tolerance`; see there.
"""

from __future__ import annotations

from openane.onnx_backend.backend import AneBackend, PreparedModel, Representation
from openane.onnx_backend.numbers import check_numbers
from openane.onnx_backend.tolerance import ABSOLUTE, RELATIVE, Tolerance, tolerance

is_compatible = AneBackend.is_compatible
prepare = AneBackend.prepare
run_model = AneBackend.run_model
run_node = AneBackend.run_node
supports_device = AneBackend.supports_device

__all__ = ["ABSOLUTE", "RELATIVE", "AneBackend", "PreparedModel", "Representation", "Tolerance", "check_numbers",
           "is_compatible", "prepare", "run_model", "run_node", "supports_device", "tolerance"]
