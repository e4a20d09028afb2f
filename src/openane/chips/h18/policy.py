"""H18: what its tasks state beside what decides their results.

Evidence: the 27 recorded tasks of Apple's compiler for H18. What they do not show is H17's (inferred).
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h17.policy import POLICY as H17_POLICY

_FRAMES = H17_POLICY.frames
assert _FRAMES is not None

# x^y is a table, a planar product and a table, placed in L2 as they are made: record binary_pow_1x64x1x1
LIMITS = replace(H17_POLICY.limits, pairs=False, planar_first=False)

POLICY = replace(
    H17_POLICY, limits=LIMITS,
    patches=replace(H17_POLICY.patches, few_rows=(1, 0), turned_near=True),
    # between 59.0 and 60.2 GB/s, and 2.93 to 3.9 ns, agree with the records
    estimate=replace(H17_POLICY.estimate, bytes_per_microsecond=60000, plane_nanoseconds=3.3),
    frames=replace(_FRAMES, second_twice=False,
                   product=({"NE.MACCfg.FewPixels": 1}, {"NE.KernelCfg.DetectZeros": 1})))
