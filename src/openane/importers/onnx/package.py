"""The onnx package: the whole of it, or its messages alone, which are imported in a fifth of the time."""

from __future__ import annotations

import sys
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

from openane.errors import UnsupportedError
from openane.version import pip_line

_MESSAGES = "onnx.onnx_ml_pb2"


def package() -> Any:
    """The onnx package. UnsupportedError with the pip line where it is missing."""
    try:
        import onnx
        import onnx.external_data_helper
        import onnx.numpy_helper
    except ImportError:
        raise UnsupportedError("ONNX import", "needs the onnx package", remedy=pip_line("onnx")) from None
    return onnx


def messages() -> Any:
    """Where ModelProto and TensorProto are: the module of the onnx package that describes its messages. The package
    itself where that is imported already, or has no such module. UnsupportedError where it is missing.

    The module is not entered among those imported, which would have the package without it as an attribute. The
    protobuf runtime makes one class of each message, however often it is described.
    """
    if "onnx" in sys.modules:
        return package()
    module = _described()
    return package() if module is None else module


@cache
def _described() -> Any:
    """The module that describes the messages, by itself; None where there is none that does. It is made once."""
    try:
        found = find_spec("onnx")
        places = None if found is None else found.submodule_search_locations
        described = PathFinder.find_spec(_MESSAGES, list(places or ()))
        if described is None or described.loader is None:
            return None
        module = module_from_spec(described)
        described.loader.exec_module(module)
    except Exception:  # whatever the protobuf runtime has against it: the package says so when it is imported
        return None
    return module if hasattr(module, "ModelProto") else None
