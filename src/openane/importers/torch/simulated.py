"""Simulated rounding (`fake_quantize`) in programs of files, as quantisations: PyTorch cannot take a program that it
read from a file apart where it has these operators, as nothing tells the shapes of what they are made of."""

from __future__ import annotations

from importlib import import_module
from typing import Any

DECLARING = "torch.ao.quantization.fx._decomposed"
"""The module of PyTorch that declares `quantized_decomposed`."""
SIMULATING = "fake_quantize_per_"


def spelled_out(torch: Any, program: Any) -> Any:
    """The program, changed in place, with each simulated rounding as a quantisation that is dequantised again."""
    graph = program.graph_module.graph
    found = [node for node in graph.nodes if SIMULATING in str(node.target)]
    if not found:
        return program
    import_module(DECLARING)
    for node in found:
        _replace(torch, graph, node)
    program.graph_module.recompile()
    return program


def _replace(torch: Any, graph: Any, node: Any) -> None:
    quantised = torch.ops.quantized_decomposed
    kind = "per_channel" if "per_channel" in str(node.target) else "per_tensor"
    overload = "tensor" if "tensor_qparams" in str(node.target) else "default"
    before, *stated = node.args
    with graph.inserting_before(node):
        whole = graph.call_function(getattr(getattr(quantised, f"quantize_{kind}"), overload),
                                    (before, *stated, torch.int32))
        back = graph.call_function(getattr(getattr(quantised, f"dequantize_{kind}"), overload),
                                   (whole, *stated, torch.int32))
    whole.meta, back.meta = dict(node.meta), dict(node.meta)
    whole.meta["val"] = node.meta["val"].to(torch.int32)
    node.replace_all_uses_with(back)
    graph.erase_node(node)
    back.name = node.name  # what the program's signature calls it
