"""What rules know beside the operation they look at."""

from __future__ import annotations

from openane.chips import Limits
from openane.record_classes import dataclass
from openane.report.explain.layers import ProfiledLayers
from openane.report.explain.retiming import Retiming


@dataclass(frozen=True, slots=True)
class AdviceContext:
    """All layers, what changes would save, the largest tensor that stays in L2, in bytes, and the limits of the
    generation the programs are for."""

    layers: ProfiledLayers
    retiming: Retiming
    l2_size: int
    limits: Limits
