"""Feed-forward parts divided among experts, of which each token takes a few.

The engine cannot fetch weights by numbers it computes, so every expert is computed for every token: the matrices of
all experts are one below the other, and the hidden numbers of those that were not chosen become 0. A router scores the
experts on the engine, too; nothing is left to the host. Experts with equal scores at the limit are all taken.
"""

from __future__ import annotations

from openane.graph import Value
from openane.models.config import Experts
from openane.models.layers import FAR, ModelLayers


def feed_forward(layers: ModelLayers, x: Value, name: str) -> Value:
    """The hidden part of a layer, divided among experts where the configuration says so: [1, tokens, width]."""
    hidden = layers.hidden(x, name)
    if layers.config.experts is not None:
        hidden = _shared_out(layers, hidden, x, name, layers.config.experts)
    return layers.down(hidden, name)


def _shares(layers: ModelLayers, x: Value, name: str, experts: Experts) -> Value:
    """What part each expert has in each token, [1, tokens, experts]; 0 for those that are not chosen."""
    builder, config = layers.builder, layers.config
    scores = layers.linear(x, f"{name}.router", {f"{name}.router.weight": experts.count},
                           after=f"{name}.{config.feed_norm}")
    best = builder.single("topk", x=scores, k=experts.chosen, axis=-1, return_indices=False)
    least = layers.part(best, 2, experts.chosen - 1, experts.chosen)
    if not experts.normalised:
        kept = builder.single("cast", x=builder.single("greater_equal", x=scores, y=least), dtype="fp16")
        return builder.single("mul", x=builder.single("softmax", x=scores, axis=-1), y=kept)
    out = builder.single("cast", x=builder.single("less", x=scores, y=least), dtype="fp16")
    masked = builder.single("add", x=scores, y=builder.single("mul", x=out, y=FAR))
    return builder.single("softmax", x=masked, axis=-1)


def _shared_out(layers: ModelLayers, hidden: Value, x: Value, name: str, experts: Experts) -> Value:
    """Every expert's hidden numbers times its share."""
    builder, (_, tokens, width) = layers.builder, hidden.shape
    whole = width - experts.shared
    divided = builder.single("reshape", x=layers.part(hidden, 2, 0, whole),
                             shape=(1, tokens, experts.count, whole // experts.count))
    spread = builder.single("reshape", x=_shares(layers, x, name, experts), shape=(1, tokens, experts.count, 1))
    chosen = builder.single("reshape", x=builder.single("mul", x=divided, y=spread), shape=(1, tokens, whole))
    if not experts.shared:
        return chosen
    share = layers.linear(x, f"{name}.share", {f"{name}.share.weight": 1}, after=f"{name}.{layers.config.feed_norm}")
    always = builder.single("mul", x=layers.part(hidden, 2, whole, width), y=builder.single("sigmoid", x=share))
    return builder.single("concat", values=(chosen, always), axis=2)
