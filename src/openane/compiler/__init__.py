"""From a model graph to engine programs."""

from openane.compiler.functions import compile_functions
from openane.compiler.model import Entry, Model, Port, State, Step, Where
from openane.compiler.partition.host_steps import HostStep
from openane.compiler.pipeline import compile

__all__ = ["Entry", "HostStep", "Model", "Port", "State", "Step", "Where", "compile", "compile_functions"]
