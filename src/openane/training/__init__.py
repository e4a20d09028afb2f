"""Training on the engine: gradients of graphs, optimisers, data, checkpoints, and the loop that joins them.

The engine computes scores and gradients in fp16; the host keeps weights and optimisers in fp32.
"""

from __future__ import annotations

from openane.training.gradient import gradient
from openane.training.gradient_weights import promote

__all__ = ["gradient", "promote"]
