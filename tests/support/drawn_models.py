"""Models of the transformers library with weights drawn at random, in directories that it wrote."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

Spread = Callable[[str, Any], float]
"""How far numbers of a matrix lie apart, by its name and itself."""


def keeping(name: str, weight: Any) -> float:
    """As far as keeps the size of what passes through a matrix or a kernel."""
    return float(weight[0].numel() ** -0.5)


def drawn(folder: Path, make: Callable[[], Any], spread: Spread = keeping, vectors: float = 0.1, seed: int = 0) -> Any:
    """A model whose matrices are normal numbers, `spread` apart, saved in a directory; to its biases and gains normal
    numbers are added, `vectors` apart (0: they stay)."""
    import torch

    torch.manual_seed(seed)
    model = make().eval().float()
    for name, weight in model.named_parameters():
        if weight.dim() > 1 and weight.requires_grad:
            torch.nn.init.normal_(weight, 0, spread(name, weight))
        elif weight.dim() == 1 and vectors:
            weight.data += vectors * torch.randn_like(weight)
    model.save_pretrained(folder)
    return model
