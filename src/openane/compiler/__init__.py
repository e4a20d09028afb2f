"""From a model graph to engine programs."""

from openane.compiler.model import Entry, Model, Port, Step, Where
from openane.compiler.pipeline import compile

__all__ = ["Entry", "Model", "Port", "Step", "Where", "compile"]
