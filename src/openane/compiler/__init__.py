"""From a model graph to engine programs."""

from openane.compiler.compile import compile
from openane.compiler.model import Entry, Model, Port, Step, Where

__all__ = ["Entry", "Model", "Port", "Step", "Where", "compile"]
