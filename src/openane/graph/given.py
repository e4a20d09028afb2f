"""What people give for a graph, where they mean the file it is read from or a model of another library."""

from __future__ import annotations

from os import PathLike

from openane.errors import GraphError
from openane.graph.graph import Graph


def require_graph(given: object) -> None:
    """GraphError, which says how to get one, for what is no graph."""
    if isinstance(given, str | PathLike):
        raise GraphError(f"a graph is expected, found the path {str(given)!r}: give openane.load_graph of it")
    if not isinstance(given, Graph):
        raise GraphError(f"a graph is expected, found {kind_of(given)}: {how_from(given)}")


def kind_of(given: object) -> str:
    """An object's kind by its full name."""
    return f"an object of {type(given).__module__}.{type(given).__qualname__}".replace(" builtins.", " ")


def how_from(given: object) -> str:
    """How a graph is had from an object of another library."""
    modules = [each.__module__ for each in type(given).__mro__]
    libraries = {name.partition(".")[0] for name in modules}
    if any(name.startswith("torch.export") for name in modules):
        return "openane.load_graph takes a program of torch.export as it is"
    if "torch" in libraries:
        return "openane.torch.to_engine(module, example) takes a module of PyTorch"
    if "onnx" in libraries:
        return "onnx.save writes it into a file for openane.load_graph"
    return "openane.load_graph reads one from a file"
