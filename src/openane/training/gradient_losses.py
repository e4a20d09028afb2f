"""Losses whose gradients keep their precision in fp16."""

from __future__ import annotations

from openane.graph import Value
from openane.ops.build import GraphBuilder


def cross_entropy(builder: GraphBuilder, logits: Value, onehot: Value, name: str = "loss") -> Value:
    """The mean over all rows of -log softmax(logits) [..., classes] at the class that `onehot` marks, of shape [].

    `onehot` has the shape and element type of the logits; its rows are the wanted probabilities and add up to 1. The
    wanted class's logit is subtracted first, so that the logarithm of the sum of exponentials is the loss itself: what
    remains is small where the prediction is right, and loses nothing. The gradient by the logits is (softmax - onehot)
    / rows, the softmax computed as such: with many rows it needs a loss scale of about as many.
    """
    wanted = builder.single("reduce_sum", x=builder.single("mul", x=logits, y=onehot), axes=[-1], keep_dims=True)
    beyond = builder.single("sub", x=logits, y=wanted)
    rows = builder.single("reduce_log_sum_exp", x=beyond, axes=[-1], keep_dims=True)
    return builder.single("reduce_mean", name, x=rows)


def mean_squared_error(builder: GraphBuilder, prediction: Value, target: Value, name: str = "loss") -> Value:
    """The mean of (prediction - target)^2 over all elements, of shape []; both have one shape and element type.

    The squares are summed inside one reduction, of differences divided by the root of their number: neither a square
    nor the sum exceeds fp16 while the root of the mean error stays below 255.
    """
    difference = builder.single("sub", x=prediction, y=target)
    share = builder.single("mul", x=difference, y=difference.type.elements ** -0.5)
    return builder.single("reduce_sum_square", name, x=share)
