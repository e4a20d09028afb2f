"""H16: limits, and what its tasks state beside what decides their results.

Evidence: the 34 recorded tasks of Apple's compiler for H16. What they do not show is H15's (inferred).
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h15.policy import LIMITS as H15_LIMITS
from openane.chips.h15.policy import POLICY as H15_POLICY

LIMITS = replace(H15_LIMITS, slots=replace(H15_LIMITS.slots, kernels_apart=True), width=65536, height=65536,
                 depth=65536, groups=65536)

POLICY = replace(
    H15_POLICY, limits=LIMITS,
    logs=replace(H15_POLICY.logs, events=(0x68, 0x68, 0, 0), high=(4, 0, 0, 4), exponents=0,
                 debug=(0xFFF868, 0xFFF868, 0xFFF820, 0xFFF860), plain=(0xFFF868, 0x68, 0xFFF820, 0xFFF860)),
    idle=replace(H15_POLICY.idle, binary_point=60))
