"""Norms as PyTorch's own exporters write them on the day: torch.export, with and without its decompositions, and ONNX
by TorchScript at two opsets. Every one is found, and right where fp16 does not hold the squares."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import openane as ane
from openane.compiler import compile
from openane.importers import load_graph
from openane.passes.order import simplify

pytestmark = [pytest.mark.needs("torch", "transformers"), pytest.mark.filterwarnings("ignore")]
ROWS, IMAGE = (2, 8, 32), (2, 16, 6, 6)
STATISTICS = {"reduce_mean", "reduce_sum", "reduce_sum_square", "reduce_l2_norm", "sqrt", "rsqrt"}


def functions(torch: Any) -> dict[str, tuple[Callable[[Any], Any], tuple[int, ...]]]:
    """Norms that networks write themselves, and the shapes they are of."""
    def less_mean(x: Any) -> Any:
        return x - x.mean(-1, keepdim=True)

    def of_channels(x: Any) -> Any:
        centred = x - x.mean(1, keepdim=True)
        return centred / torch.sqrt(centred.pow(2).mean(1, keepdim=True) + 1e-6)

    def fast(x: Any) -> Any:
        mean = x.mean(-1, keepdim=True)
        variance = (x * x).mean(-1, keepdim=True) - mean * mean
        return (x - mean) * torch.rsqrt(variance.clamp(min=0) + 1e-5)

    def of_groups(x: Any) -> Any:
        rows = x.view(2, 4, -1)
        variance, mean = torch.var_mean(rows, -1, keepdim=True, unbiased=False)
        return ((rows - mean) * torch.rsqrt(variance + 1e-5)).view(x.shape)

    def adaptive(x: Any) -> Any:
        flat = x.view(2, 16, -1)
        deviation = (flat.var(dim=2) + 1e-5).sqrt().view(2, 16, 1, 1)
        return (x - flat.mean(2).view(2, 16, 1, 1).expand_as(x)) / deviation.expand_as(x)

    return {"channels": (of_channels, IMAGE), "fast variance": (fast, ROWS), "groups": (of_groups, IMAGE),
            "adaptive": (adaptive, IMAGE), "all elements": (lambda x: (x - x.mean()) / x.std(), IMAGE),
            "length": (lambda x: torch.nn.functional.normalize(x, dim=-1), ROWS),
            "demodulated": (lambda x: x * torch.rsqrt((x * x).sum([2, 3], keepdim=True) + 1e-8), IMAGE),
            "standard deviation": (lambda x: less_mean(x) / x.std(-1, keepdim=True, unbiased=False), ROWS)}


def modules(torch: Any) -> dict[str, tuple[Any, tuple[int, ...]]]:
    """Norms of PyTorch and transformers with gains and offsets that are drawn."""
    from transformers.models.gemma.modeling_gemma import GemmaRMSNorm
    from transformers.models.llama.modeling_llama import LlamaRMSNorm
    from transformers.models.t5.modeling_t5 import T5LayerNorm

    class Written(torch.nn.Module):  # type: ignore[misc]
        def __init__(self, function: Callable[[Any], Any]) -> None:
            super().__init__()
            self.function = function

        def forward(self, x: Any) -> Any:
            return self.function(x)

    nn, made = torch.nn, {name: (Written(function), shape) for name, (function, shape) in functions(torch).items()}
    made |= {"LayerNorm": (nn.LayerNorm(32), ROWS), "LayerNorm of two axes": (nn.LayerNorm((8, 32)), ROWS),
             "GroupNorm": (nn.GroupNorm(4, 16), IMAGE), "InstanceNorm": (nn.InstanceNorm2d(16, affine=True), IMAGE),
             "BatchNorm that trains": (nn.BatchNorm2d(16, track_running_stats=False), IMAGE),
             "Llama": (LlamaRMSNorm(32), ROWS), "T5": (T5LayerNorm(32), ROWS), "Gemma": (GemmaRMSNorm(32), ROWS)}
    torch.manual_seed(0)
    for module, _ in made.values():
        for parameter in module.parameters():
            torch.nn.init.uniform_(parameter, 0.5, 1.5)
    return made


def exported(torch: Any, module: Any, x: Any, how: str, folder: Path) -> Path:
    """The file an exporter writes."""
    if how.startswith("opset"):
        file = folder / "norm.onnx"
        torch.onnx.export(module, (x,), str(file), opset_version=int(how.split()[1]), dynamo=False, input_names=["x"],
                          training=torch.onnx.TrainingMode.PRESERVE)
        return file
    program = torch.export.export(module, (x,))
    file = folder / "norm.pt2"
    torch.export.save(program.run_decompositions() if how == "decomposed" else program, str(file))
    return file


@pytest.mark.parametrize("how", ["export", "decomposed", "opset 11", "opset 17"])
def test_norms_of_pytorch_s_exporters(how: str, tmp_path: Path) -> None:
    import torch

    for name, (module, shape) in modules(torch).items():
        module = module.train() if name == "BatchNorm that trains" else module.eval()
        graph = load_graph(exported(torch, module, torch.randn(shape), how, tmp_path))
        left = {node.op for node in simplify(graph).nodes}
        assert left & {"layer_norm", "rms_norm"}, f"{name}: {left}"
        assert not left & STATISTICS, f"{name}: {left}"
        model = compile(graph)
        rng = np.random.default_rng(1)
        for low, high in ((0.5, 2.0), (300.0, 3000.0)):
            x = (rng.choice([-1, 1], shape) * rng.uniform(low, high, shape)).astype(np.float16)
            with torch.no_grad():
                wanted = module(torch.from_numpy(x.astype(np.float32))).numpy()
            found, = ane.run(model, {graph.inputs[0].name: x}, "simulator?arithmetic=exact").values()
            assert np.abs(found.astype(np.float32) - wanted).max() <= 2e-3 * np.abs(wanted).max(), f"{name} {high}"
