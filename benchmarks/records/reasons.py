"""Why fields differ from Apple's: one sentence per field that any rule of ours leaves open."""

from __future__ import annotations

import re

REASONS = {
    r"task": "another lowering: the operations themselves differ",
    r"L2\.(Source|Second|Result)Base\.Addr": "another order in which tensors are placed in L2",
    r"L2\..*Stride\.Stride": "another layout in L2: pads of rows or channels, strides of extents of one",
    r"L2\.(ResultCfg\.L2BfrMode)|TileDMADst\.DMAConfig\.L2BfrMode":
        "results wider than a patch that no patch divides are staged in L2; the rule is not known",
    r"L2\.SourceCfg\.(Alias|Dependent).*|L2\.ResultCfg\.Alias.*": "hazard tracking that follows from placement",
    r"Header\.Next\.ExeCycles": "Apple's estimate of the time; ours knows bytes moved and planes visited only",
    r"Header\.(Debug)?LogEvents\.Events|Common\.DPE\.Category":
        "says which kind of table a task has; an engine operation does not know it",
    r"Common\.(TileCfg|PETile).*": "tile sizes of reductions and of broadcast sources; the rule is not known",
    r"Common\.Cfg\.(Sh|SmallSource).*": "patch shapes; the rule is known in part",
    r"TileDMA(Src|Dst)\..*Stride\.Stride": "strides of extents of one",
    r"KernelDMA\..*": "coefficients packed or split differently",
    r"Header\.(NextPointer|Next\.NextSize|Task).*": "follows from the number of tasks and their sizes",
}
"""Sentence by pattern of the field's name; the first that matches counts."""


def reason(field: str) -> str:
    """Why a field differs, as far as it is known."""
    return next((text for pattern, text in REASONS.items() if re.fullmatch(pattern, field)),
                "another lowering: the operations differ")
