"""Nodes whose gradients are tried both against central differences and on the engine: what picks and writes elements,
resizes, and what is differentiated in an expanded form."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from support.gradients import Made


@dataclass(frozen=True)
class Case:
    """One node: its operation, shapes of its inputs, constants that are differentiated too, and its other operands.
    `result` picks one of several results; None weights all of them."""

    op: str
    inputs: Mapping[str, tuple[int, ...]]
    operands: Mapping[str, Any] = field(default_factory=dict)
    weights: Mapping[str, np.ndarray] = field(default_factory=dict)
    result: int | None = None
    label: str = ""

    def __str__(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op

    @property
    def made(self) -> Made:
        """What makes the node in a builder."""
        def function(builder: Any, values: Any) -> Any:
            made = builder.add(self.op, **values, **self.operands)
            return made if self.result is None else made[self.result]

        return function

    def numbers(self, dtype: type[np.floating[Any]], low: float = -2.0, high: float = 2.0) -> dict[str, np.ndarray]:
        """Random numbers for the inputs, none of them equal."""
        rng = np.random.default_rng(len(self.op))
        return {name: rng.uniform(low, high, shape).astype(dtype) for name, shape in self.inputs.items()}


def _whole(*numbers: Any) -> np.ndarray:
    return np.array(numbers, np.int32)


IMAGE = {"x": (2, 3, 6, 8)}
CUBE = {"x": (2, 5, 4)}
ALONG = _whole([[4, 0, 0, -1], [2, 2, 1, 0]], [[1, 1, 1, 1], [0, 3, 2, 4]])
"""[2, 2, 4]: positions along an axis of 5."""
PICKS = [
    Case("gather", CUBE, {"indices": _whole([0, 3, 3], [4, 1, 0]), "axis": 1, "batch_dims": 1}, label="batch"),
    Case("gather_along_axis", CUBE, {"indices": ALONG, "axis": 1}),
    Case("gather_along_axis", CUBE, {"indices": np.broadcast_to(_whole(3, 1, 3, 0)[:, None], (2, 4, 4)).copy(),
                                     "axis": 1}, label="common"),
    Case("gather_nd", CUBE, {"indices": _whole([0, 1], [1, 4], [0, 1], [-1, 0])}),
    Case("gather_nd", CUBE, {"indices": _whole([[1], [4], [4]], [[0], [2], [0]]), "batch_dims": 1}, label="batch"),
    Case("sliding_windows", CUBE, {"axis": 1, "size": 3}),
    Case("sliding_windows", CUBE, {"axis": 2, "size": 2, "stride": 2}, label="apart"),
    Case("reverse_sequence", CUBE, {"lengths": _whole(4, 2), "seq_axis": 1, "batch_axis": 0}),
    Case("reverse_sequence", CUBE, {"lengths": _whole(0, 2, 1, 2, 1), "seq_axis": 0, "batch_axis": 1}, label="front"),
    Case("pad", CUBE, {"pad": [1, 0, 3, 2, 0, 1], "mode": "reflect"}, label="reflect"),
    Case("pad", CUBE, {"pad": [2, 3, 1, 1], "mode": "replicate"}, label="replicate"),
    Case("topk", CUBE, {"k": 3, "axis": 1}, result=0),
    Case("topk", CUBE, {"k": 2, "axis": -1, "ascending": True, "return_indices": False}, label="smallest"),
    Case("slice_update", {"x": (2, 5, 4), "update": (2, 2, 4)},
         {"begin": [0, 1, 0], "end": [2, 5, 4], "stride": [1, 2, 1]}),
    Case("slice_update", {"x": (2, 5, 4), "update": (2, 3)},
         {"begin": [0, 1, -1], "end": [2, 2, 0], "stride": [1, 1, -1], "squeeze_mask": [False, True, False]},
         label="backwards"),
]
PLACES = {
    "scatter": ({"data": (2, 5, 4), "updates": (2, 4, 4)}, {"indices": _whole(3, 0, 3, -1), "axis": 1}),
    "scatter_along_axis": ({"data": (2, 5, 4), "updates": (2, 2, 4)}, {"indices": ALONG, "axis": 1}),
    "scatter_nd": ({"data": (2, 5, 4), "updates": (3, 4)}, {"indices": _whole([0, 1], [1, 4], [0, 1])}),
}
WRITES = [Case(op, shapes, {**operands, "mode": mode}, label=mode) for op, (shapes, operands) in PLACES.items()
          for mode in ("update", "add", "sub", "mul", "div", "max", "min")]
RESIZES = [
    *(Case("resize", IMAGE, {"shape": _whole(5, 11), "resized_dims": np.int32(2), "interpolation_mode": "LINEAR",
                             "sampling_mode": mode}, label=mode)
      for mode in ("DEFAULT", "STRICT_ALIGN_CORNERS", "ALIGN_CORNERS", "OFFSET_CORNERS", "UNALIGN_CORNERS")),
    Case("resize", IMAGE, {"shape": _whole(2, 9, 0), "resized_dims": np.int32(3),
                           "interpolation_mode": "NEAREST_NEIGHBOR"}, label="nearest"),
    Case("resize", {"x": (6,)}, {"shape": _whole(9), "resized_dims": np.int32(1)}, label="vector"),
    *(Case("resize_bilinear", IMAGE, {"target_size_height": 4, "target_size_width": 13, "sampling_mode": mode},
           label=mode) for mode in ("DEFAULT", "UNALIGN_CORNERS")),
    Case("upsample_nearest_neighbor", IMAGE, {"scale_factor_height": 2.5, "scale_factor_width": 0.5}),
    *(Case("resample", IMAGE, {"coordinates": np.random.default_rng(2).uniform(-1.3, 1.3, (2, 3, 4, 2)).astype(
        np.float16), "sampling_mode": sampling, "padding_mode": padding, "padding_value": 0.5,
        "coordinates_mode": "normalized_minus_one_to_one", "align_corners": True}, label=f"{sampling}-{padding}")
      for sampling, padding in (("bilinear", "constant"), ("bilinear", "symmetric"), ("nearest", "border"))),
    Case("affine", IMAGE, {"transform_matrix": np.float16([[0.8, 0.3, 0.1, -0.2, 0.9, 0]]), "output_height": 4,
                           "output_width": 5, "sampling_mode": "bilinear", "padding_mode": "constant",
                           "padding_value": 0.0, "coordinates_mode": "normalized_minus_one_to_one",
                           "align_corners": True}),
    Case("crop_resize", IMAGE, {"boxes": np.float32([[0.5, 1, 4, 6], [1, 0, 9, 3], [2, 2, 5, 7]]),
                                "box_indices": _whole(1, 1, 0), "target_height": 3, "target_width": 4,
                                "pad_value": 1.0}),
    Case("crop_resize", {"x": (3, 2, 6, 8)}, {
        "roi": np.float32([[1, 0, 1, 4, 5], [1, 2, 2, 5, 7]]).reshape(2, 1, 5, 1, 1), "target_height": 4,
        "target_width": 3, "sampling_mode": "ALIGN_CORNERS"}, label="roi"),
]


def _recurrent(op: str, gates: int, steps: int = 3, *, back: bool = False, states: tuple[str, ...] = ("initial_h",),
               peephole: bool = False, label: str = "", **operands: Any) -> Case:
    batch, size, hidden = 2, 4, 3
    rng, weights = np.random.default_rng(steps), {}
    shapes = {"weight_ih": (gates * hidden, size), "weight_hh": (gates * hidden, hidden), "bias": (gates * hidden,),
              **({"peephole": (3 * hidden,)} if peephole else {})}
    for suffix in ("", "_back") if back else ("",):
        for name, shape in shapes.items():
            weights[name + suffix] = rng.uniform(-0.7, 0.7, shape).astype(np.float16).astype(np.float32)
    inputs = {"x": (steps, batch, size), **dict.fromkeys(states, (batch, hidden * (2 if back else 1)))}
    return Case(op, inputs, operands, weights, label=label)


BOTH = ("initial_h", "initial_c")
RECURRENT = [
    _recurrent("rnn", 1, output_sequence=True), _recurrent("rnn", 1, label="reverse", direction="reverse",
                                                           activation="relu"),
    _recurrent("gru", 3, output_sequence=True), _recurrent("gru", 3, 1, label="one step",
                                                           recurrent_activation="sigmoid_hard"),
    _recurrent("gru", 3, label="reverse", direction="reverse", output_sequence=True),
    _recurrent("lstm", 4, states=BOTH, output_sequence=True),
    _recurrent("lstm", 4, states=BOTH, direction="reverse", peephole=True, clip=0.6, label="peephole"),
    _recurrent("lstm", 4, states=BOTH, direction="bidirectional", back=True, output_sequence=True, label="both"),
    _recurrent("lstm", 4, states=BOTH, direction="bidirectional", back=True, activation="linear", label="both ends"),
]
CURVES = [
    Case("local_response_norm", {"x": (2, 6, 3, 4)}, {"size": 3, "alpha": 0.9, "beta": 0.75, "k": 1.5}),
    Case("local_response_norm", {"x": (2, 6, 5)}, {"size": 5, "alpha": 0.3, "beta": 0.5, "k": 1.0}, label="sequence"),
    Case("softplus_parametric", {"x": (2, 3, 2, 4)},
         weights={"alpha": np.float32([0.5, -1.5, 2]), "beta": np.float32([1.5, 1, -0.75])}),
    *(Case("reduce_prod", {"x": (2, 5, 4)}, {"axes": axes, "keep_dims": keep}, label=f"{axes} {keep}")
      for axes, keep in (([1], False), ([-1], True), ([0, 2], False), (None, False))),
]
POOLS = [
    Case("l2_pool", IMAGE, {"kernel_sizes": [2, 3], "strides": [1, 2], "pad_type": "same"}),
    Case("l2_pool", IMAGE, {"kernel_sizes": [3, 2], "strides": [2, 2], "pad_type": "custom", "pad": [1, 1, 0, 0],
                            "ceil_mode": True}, label="ceiling"),
    Case("l2_pool", IMAGE, {"kernel_sizes": [6, 8], "pad_type": "valid"}, label="whole"),
    Case("l2_pool", {"x": (2, 3, 9)}, {"kernel_sizes": [3], "strides": [3], "pad_type": "valid"}, label="sequence"),
]
CASES = [*POOLS, *PICKS, *WRITES, *RESIZES, *RECURRENT, *CURVES]
