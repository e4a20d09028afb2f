"""Masks, Fourier transforms, complex numbers, grouped attention and mixtures of experts of PyTorch programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.needs import library
from support.torch_programs import exported, hold, hold_all, image, module

import openane as ane

torch = library("torch")
functional = torch.nn.functional
LOWEST = torch.finfo(torch.float32).min


def _scores(x: Any) -> Any:
    return x @ x.transpose(2, 3) * 4


MASKED: dict[str, Callable[..., Any]] = {
    "added": lambda x: (_scores(x) + torch.full((8, 8), LOWEST).triu(1)).softmax(-1),
    "added to a bias": lambda x: (_scores(x) + (torch.full((8, 8), LOWEST).triu(1) + torch.arange(8.0))).softmax(-1),
    "a row masked throughout": lambda x: (_scores(x) + torch.full((8, 8), LOWEST)).softmax(-1),
    "computed": lambda x: (_scores(x) + torch.where(x[:, :1] > 9, 0.0, LOWEST)).softmax(-1),
    "multiplied": lambda x: (_scores(x) + (1 - (x[:, :1] > -1).float()) * LOWEST).softmax(-1),
    "filled": lambda x: _scores(x).masked_fill(x[:, :1] > 1, LOWEST).softmax(-1),
    "kept above": lambda x: torch.maximum(_scores(x), torch.tensor(LOWEST)).clamp(LOWEST, -LOWEST),
    "attention": lambda x: functional.scaled_dot_product_attention(
        x, x, x, attn_mask=torch.full((8, 8), LOWEST).triu(1)),
}
SHAPED: dict[str, Callable[..., Any]] = {
    "no elements joined": lambda x: torch.cat([x[..., :8], x[..., 8:], x[:, :, :, 4:4]], -1),
    "no elements split off": lambda x: torch.cat(x.split([3, 0, 5], -1)[::-1], -1),
    "cropped by padding": lambda x: functional.pad(x, (1, -2, -1, 3)), "windows": lambda x: x.unfold(-1, 4, 2),
    "windows side by side": lambda x: x.unfold(1, 2, 2), "any": lambda x: (x > 1).any(-1).float(),
    "all": lambda x: (x > -2).all((2, 3)).float(), "ellipsis": lambda x: torch.einsum("...qd,...kd->...qk", x, x),
    "three tensors": lambda x: torch.einsum("bhqd,bhkd,bhqk->bhq", x, x * 0.1, x * 0.1),
    "diagonal": lambda x: torch.einsum("bhdd->bdh", x[..., :4, :4]),
    "trace": lambda x: torch.einsum("bhdd->b", x[..., :4, :4]),
    "diagonal times": lambda x: torch.einsum("bhdd,bhdk->bk", x[..., :4, :4], x[..., :4, :4]),
    "towards zero": lambda x: torch.div(x.round() * 4, -3, rounding_mode="trunc"),
    "numbers alone": lambda x: torch.fmax(torch.where(x > 1, float("nan"), x), x.flip(-1)),
    "one tensor": lambda x: torch.einsum("bhqd->bq", x),
    "a pool without a batch": lambda x: functional.max_pool2d(x[0], 2) + functional.avg_pool2d(x[0], 2),
    "windows beyond the edge": lambda x: functional.avg_pool2d(x, 3, 2, 1, ceil_mode=True),
}


def _modes(x: Any) -> Any:
    """A layer of a Fourier neural operator: low frequencies are mixed, the others go."""
    mixed = torch.einsum("bixy,ioxy->boxy", torch.fft.rfft2(x)[:, :, :3, :2], torch.polar(
        torch.ones(4, 3, 3, 2), torch.arange(72.0).reshape(4, 3, 3, 2)))
    spectrum = torch.zeros(1, 3, 8, 5, dtype=torch.complex64)
    spectrum[:, :, :3, :2] = mixed
    return torch.fft.irfft2(spectrum, s=(8, 8))


WAVES: dict[str, Callable[..., Any]] = {
    "fft, real": lambda x: torch.fft.fft(x).real, "fft, imaginary": lambda x: torch.fft.fft(x).imag,
    "magnitudes": lambda x: torch.fft.rfft(x).abs(), "there and back": lambda x: torch.fft.irfft(torch.fft.rfft(x)),
    "two axes": lambda x: torch.fft.fft2(x, norm="ortho").abs(),
    "two axes, back": lambda x: torch.fft.irfft2(torch.fft.rfft2(x, norm="ortho"), norm="ortho"),
    "spectrum": lambda x: torch.stft(x.flatten(1), 16, 8, window=torch.hann_window(16), return_complex=True).abs(),
    "sound": lambda x: torch.istft(torch.stft(x.flatten(1), 16, 8, window=torch.hann_window(16), return_complex=True),
                                   16, 8, window=torch.hann_window(16)),
    "rotated": lambda x: torch.view_as_real(torch.view_as_complex(x.reshape(1, 4, 8, 4, 2)) * torch.polar(
        torch.ones(8, 4), torch.arange(32.0).view(8, 4) / 5)).flatten(3),
    "windows": lambda x: torch.fft.irfft2(torch.fft.rfft2(
        x.reshape(1, 4, 2, 4, 2, 4).permute(0, 1, 2, 4, 3, 5))).permute(0, 1, 2, 4, 3, 5).reshape(1, 4, 8, 8),
    "beyond the ends": lambda x: torch.view_as_real(functional.pad(torch.fft.rfft(x), (1, 2), value=3.0)),
    "joined": lambda x: torch.view_as_real(torch.cat([torch.fft.rfft(x), -torch.fft.rfft(x)], 2)),
    "stacked": lambda x: torch.fft.irfft(torch.stack([torch.fft.rfft(x)] * 2)).flatten(0, 1),
    "in parts": lambda x: torch.view_as_real(torch.fft.rfft(x).chunk(2, 1)[1]),
    "added up": lambda x: torch.view_as_real(torch.fft.rfft(x).sum(1) + torch.fft.rfft(x).mean(1)),
    "quotients": lambda x: torch.view_as_real(torch.fft.rfft(x) / 2 / torch.polar(torch.ones(5), torch.arange(5.0))),
    "chosen": lambda x: torch.view_as_real(torch.where(torch.arange(5) > 2, torch.fft.rfft(x), torch.zeros(
        5, dtype=torch.complex64))),
    "product of matrices": lambda x: torch.view_as_real(torch.fft.rfft(x).mT @ torch.fft.rfft(x)),
    "modes": _modes,
}


def test_masks_are_as_far_as_possible() -> None:
    """Also rows that are masked throughout have the even weights fp32 gives them, and nothing is NaN."""
    graph = hold_all(MASKED, image())
    model = ane.compile(graph, allow_host=False)
    assert any("a constant that masks was made -30000" in str(concern) for concern in model.concerns)
    found = ane.run(model, {graph.inputs[0].name: image().numpy()})
    assert all(np.isfinite(array).all() for array in found.values())


def test_numbers_that_are_merely_large_are_refused() -> None:
    with pytest.raises(ane.GraphError, match="does not fit fp16"):
        ane.load_graph(exported(module(lambda x: x + 1e5), image()))


def test_shapes() -> None:
    assert not ane.compile(hold_all(SHAPED, image()), allow_host=False).host_operations


def test_waves() -> None:
    assert not ane.compile(hold_all(WAVES, image(), tolerance=2e-2), allow_host=False).host_operations


def test_heads_share_keys() -> None:
    attention = functional.scaled_dot_product_attention
    hold_all({"groups": lambda q, k: attention(q, k, k, enable_gqa=True, is_causal=True, scale=0.2),
              "one for all": lambda q, k: attention(q, k[:, :1], k[:, :1])}, image(1, 8, 6, 16), image(1, 2, 6, 16))


def test_experts() -> None:
    """The order tokens are put in does not matter, so nothing is sorted; the chosen expert's result is kept."""
    class Experts(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            generator = torch.Generator().manual_seed(3)
            self.router = torch.nn.Parameter(torch.randn(16, 4, generator=generator).half().float())
            self.up = torch.nn.Parameter(torch.randn(4, 16, 24, generator=generator).half().float() / 4)
            self.shift = torch.nn.Parameter(torch.randn(4, 24, generator=generator).half().float())

        def forward(self, x: Any) -> Any:
            weights, chosen = (x @ self.router).softmax(-1).topk(2)
            numbers, order = chosen.flatten().sort()
            ends = torch.histc(numbers.float(), 4, 0, 3).cumsum(0, dtype=torch.int32)
            rows = torch._grouped_mm(x[order // 2].bfloat16(), self.up.bfloat16(), ends).float() + self.shift[numbers]
            back = torch.empty_like(order)
            back[order] = torch.arange(20)
            return ((rows * weights.flatten()[order, None])[back]).view(10, 2, 24).sum(1)

    model = ane.compile(hold(Experts(), image(10, 16), tolerance=5e-2), allow_host=False)
    assert not model.host_operations
