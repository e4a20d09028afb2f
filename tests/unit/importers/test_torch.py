"""Programs of torch.export: operators against PyTorch itself, what is refused, files."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.needs import library
from support.torch_programs import exported, hold, hold_all, image, module

import openane as ane
from openane.ops.evaluate import evaluate

torch = library("torch")
nn = torch.nn
functional = nn.functional


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """PyTorch warns about its own ways while it exports."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


LAYERS = {
    "conv": nn.Conv2d(4, 6, 3, 2, 1, groups=2), "conv without bias": nn.Conv2d(4, 6, (1, 3), bias=False),
    "transposed": nn.ConvTranspose2d(4, 6, 3, 2, 1, output_padding=1), "batch norm": nn.BatchNorm2d(4),
    "instance norm": nn.InstanceNorm2d(4, affine=True), "group norm": nn.GroupNorm(2, 4),
    "layer norm": nn.LayerNorm((8, 8)), "rms norm": nn.RMSNorm(8), "response norm": nn.LocalResponseNorm(3),
    "average": nn.AvgPool2d(3, 2, 1), "average, ceiling": nn.AvgPool2d(3, 2, ceil_mode=True, count_include_pad=False),
    "maximum, ceiling": nn.MaxPool2d(3, 2, ceil_mode=True), "adaptive": nn.AdaptiveAvgPool2d(2),
    "adaptive, uneven": nn.AdaptiveAvgPool2d((3, 7)), "adaptive maximum, uneven": nn.AdaptiveMaxPool2d((3, 7)),
    "adaptive to one": nn.AdaptiveAvgPool2d(1), "adaptive maximum": nn.AdaptiveMaxPool2d(4),
    "shuffle": nn.PixelShuffle(2), "unshuffle": nn.PixelUnshuffle(2), "channel shuffle": nn.ChannelShuffle(2),
    "upsample": nn.Upsample(scale_factor=2), "reflection": nn.ReflectionPad2d(2), "edge": nn.ReplicationPad2d(1),
    "zeros": nn.ZeroPad2d((1, 2, 0, 3)), "dropout": nn.Dropout(), "flatten": nn.Flatten(), "prelu": nn.PReLU(4),
    "linear": nn.Linear(8, 5), "glu": nn.GLU(1), "softmax": nn.Softmax(1), "log softmax": nn.LogSoftmax(1),
    **{kind.__name__: kind() for kind in (
        nn.ReLU, nn.ReLU6, nn.GELU, nn.SiLU, nn.ELU, nn.SELU, nn.CELU, nn.LeakyReLU, nn.Hardswish, nn.Hardsigmoid,
        nn.Hardtanh, nn.Softplus, nn.Softsign, nn.Mish, nn.Tanhshrink, nn.LogSigmoid, nn.Sigmoid, nn.Tanh)},
}


class Layers(nn.Module):  # type: ignore[misc]
    """Every layer side by side: exporting takes longer than all of the rest."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(LAYERS.values())

    def forward(self, x: Any) -> Any:
        return [layer(x) for layer in self.layers]


def test_layers() -> None:
    hold(Layers(), image(), names=list(LAYERS))


FUNCTIONS: dict[str, Callable[..., Any]] = {
    "arithmetic": lambda x: (1 - x + x * 2 - 0.5 * x) / (x.abs() + 1), "powers": lambda x: x ** 2 + x.abs() ** 0.5,
    "rounding": lambda x: x.floor() + x.round() + x.ceil() + x.sign(), "remainder": lambda x: torch.remainder(x, 2),
    "floor division": lambda x: x // 2, "functions": lambda x: x.sin() + x.cos() + x.erf() + x.exp() + x.abs().log1p(),
    "mean": lambda x: x.mean(), "mean kept": lambda x: x.mean(1, keepdim=True), "sum": lambda x: x.sum((2, 3)),
    "maximum": lambda x: x.max(1), "amax": lambda x: x.amax((1, 2)), "argmax": lambda x: x.argmax(1),
    "deviation": lambda x: x.std(1), "variance": lambda x: x.var((2, 3), unbiased=False),
    "normalised": lambda x: functional.normalize(x, dim=1), "cumulative": lambda x: x.cumsum(1),
    "top": lambda x: x.topk(2, 1), "sorted": lambda x: x.argsort(1), "where": lambda x: torch.where(x > 0, x, x * 0.1),
    "clamp": lambda x: x.clamp(-1, 0.5) + x.clamp(min=0), "filled": lambda x: x.masked_fill(x > 0, -1e9).softmax(1),
    "causal": lambda x: x.masked_fill(torch.ones(8, 8).tril() == 0, float("-inf")).softmax(-1),
    "slice": lambda x: x[:, 1:3, ::2, -3:], "select": lambda x: x[:, -1], "unbind": lambda x: x.unbind(1)[1],
    "chunks": lambda x: torch.cat(x.chunk(2, 1)[::-1], 1), "stack": lambda x: torch.stack([x, x * 2], 1),
    "expand": lambda x: x.mean(1, keepdim=True).expand(-1, 4, -1, -1) * 1, "repeat": lambda x: x.repeat(1, 2, 1, 1),
    "flip": lambda x: x.flip(2), "roll": lambda x: x.roll((1, -2), (2, 3)),
    "turned": lambda x: x.permute(0, 2, 3, 1).reshape(1, 64, 4), "triangle": lambda x: x.triu(),
    "einsum": lambda x: torch.einsum("nchw,ncvw->nchv", x, x), "matmul": lambda x: x @ x.transpose(2, 3),
    "index": lambda x: x[:, torch.tensor([2, 0])], "index select": lambda x: x.index_select(1, torch.tensor([2, 0])),
    "attention": lambda x: functional.scaled_dot_product_attention(x, x, x),
    "causal attention": lambda x: functional.scaled_dot_product_attention(x, x, x, is_causal=True, scale=0.3),
    "logic": lambda x: ((x > 0) & (x < 1)) | ~(x <= 2), "positions": lambda x: x + torch.arange(8.0),
    "half": lambda x: x.type(torch.float16).float(),
    "bilinear": lambda x: functional.interpolate(x, scale_factor=2, mode="bilinear"),
    "aligned": lambda x: functional.interpolate(x, size=(12, 12), mode="bilinear", align_corners=True),
    "similarity": lambda x: functional.cosine_similarity(x, x * 2 + 1, dim=1),
}


def test_functions() -> None:
    hold_all(FUNCTIONS, image())


def test_several_results() -> None:
    hold(module(lambda x: (x + 1, x, x * 2, *x.max(1), *x.topk(2, 1))), image())


def test_rows_and_tokens() -> None:
    hold(nn.Conv1d(6, 4, 3, padding=1), image(1, 6, 8))
    hold(nn.MaxPool1d(2), image(1, 6, 8))
    hold(nn.Embedding(20, 16), torch.tensor([[3, 1, 19]]))
    hold(module(lambda x, y: torch.addmm(y, x, x.T, beta=2, alpha=3)), image(5, 7), image(5, 5), tolerance=5e-2)


@pytest.mark.parametrize("order", [1.0, 2.0])
@pytest.mark.parametrize("most", [1 << 22, 1])
def test_distances_of_rows(order, most, monkeypatch):
    monkeypatch.setattr("openane.importers.torch.operators.matrices.MOST_DIFFERENCES", most)
    hold(module(lambda x, y: torch.cdist(x, y, order)), image(2, 5, 7), image(1, 4, 7), tolerance=5e-2)


def test_a_recurrent_layer() -> None:
    hold(nn.LSTM(8, 4, batch_first=True), image(1, 3, 8))


def test_a_transformer_layer_runs_on_the_engine() -> None:
    net, x = nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), image(1, 6, 16)
    graph = hold(net, x)
    model = ane.compile(graph)
    assert not model.host_operations
    found, = ane.run(model, {graph.inputs[0].name: x.numpy()}).values()
    assert found.dtype == np.float32
    assert np.abs(found - net(x).detach().numpy()).max() < 1e-2


def test_changes_in_place_and_ports() -> None:
    def function(x: Any, y: Any) -> Any:
        z = x + y
        z[:, 0] += 1
        return z
    graph = hold(module(function), image(2, 3), torch.tensor([[1, 2, 3]]))
    assert [value.dtype for value in graph.inputs] == ["fp16", "int32"]
    assert sorted(kind for key, kind in graph.metadata.items() if key.startswith("dtype:")) == ["fp32", "fp32", "int64"]


def test_files(tmp_path: Path) -> None:
    path, x = tmp_path / "net.bin", image()
    program = exported(LAYERS["conv"], x)
    torch.export.save(program, tmp_path / "net.pt2")
    (tmp_path / "net.pt2").rename(path)  # told by content
    graph = ane.load_graph(path)
    feeds = {graph.inputs[0].name: x.numpy()}
    assert np.array_equal(*(next(iter(evaluate(each, feeds).values())) for each in (graph, ane.load_graph(program))))
    with pytest.raises(ane.GraphError, match="the program states input"):
        ane.load_graph(path, {"input": (1, 2)})
    data = bytearray(path.read_bytes())
    for position in range(0, len(data), len(data) // 16):
        broken = tmp_path / "broken.pt2"
        broken.write_bytes(data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1:])
        try:
            ane.load_graph(broken)
        except ane.AneError:
            continue



@pytest.mark.parametrize(("net", "match"), [
    (module(lambda x: x + torch.rand(8)), "random numbers"),
    (module(lambda x: x * 1e6), "does not fit fp16"),
    (module(lambda x: torch.polygamma(2, x)), "0 or 1"),
])
def test_refusals_say_what_would_pass(net: Any, match: str) -> None:
    with pytest.raises(ane.AneError, match=match):
        ane.load_graph(exported(net, image()))


def test_the_mean_of_a_batch_norm_goes_as_the_rounded_gain_has_it() -> None:
    norm = nn.BatchNorm2d(64).eval()
    norm.running_mean.fill_(256.0)
    norm.running_var.copy_(torch.linspace(0.5, 2.0, 64))
    x = 256 + torch.randn(1, 64, 8, 8)
    graph = ane.load_graph(exported(norm, x))
    found = next(iter(evaluate(graph, {graph.inputs[0].name: x.numpy()}).values()))
    wanted = norm(x).detach().numpy()
    assert np.abs(found - wanted).max() < 2e-3


class Doubled(nn.Module):  # type: ignore[misc]
    """x plus the sum of ones that are joined with themselves so many times."""

    def __init__(self, times: int, product: bool = False) -> None:
        super().__init__()
        self.times, self.product = times, product

    def forward(self, x: Any) -> Any:
        """See the class."""
        ones = torch.ones(64, 64)
        for _ in range(self.times):
            ones = torch.cat([ones, ones])
        return x + (ones.T @ ones if self.product else ones).mean()


def test_what_doubles_is_refused_before_it_is_made() -> None:
    program = torch.export.export(Doubled(4), (torch.ones(1, 4),))
    assert ane.load_graph(program, limit=1 << 20).outputs[0].shape == (1, 4)
    with pytest.raises(ane.UnsupportedError, match=r"cat.*: constants computed from others.*limit 65536 bytes"):
        ane.load_graph(program, limit=1 << 16)


def test_the_work_of_constants_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    program = torch.export.export(Doubled(3, product=True), (torch.ones(1, 4),))
    monkeypatch.setattr("openane.graph.budget.WORK", 1)
    assert ane.load_graph(program, limit=1 << 22).outputs
    with pytest.raises(ane.UnsupportedError, match=r"matmul.*limit 1048576 multiplications|mm.*multiplications"):
        ane.load_graph(program, limit=1 << 20)


def test_what_is_filled_is_bounded() -> None:
    program = torch.export.export(module(lambda x: torch.full_like(x, 2.0) + x), (torch.ones(64, 64),))
    with pytest.raises(ane.UnsupportedError, match=r"full_like.*constants computed from others"):
        ane.load_graph(program, limit=1 << 10)
