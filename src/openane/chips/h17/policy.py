"""H17: what its tasks state beside what decides their results.

Evidence: the 40 recorded tasks of Apple's compiler for H17. What they do not show is H16's (inferred).
"""

from __future__ import annotations

from dataclasses import replace

from openane.chips.h16.policy import POLICY as H16_POLICY

_ZEROS = {"NE.KernelCfg.DetectZeros": 1}
_FRAMES = H16_POLICY.frames
assert _FRAMES is not None

POLICY = replace(
    H16_POLICY, hints=replace(H16_POLICY.hints, result=2),
    logs=replace(H16_POLICY.logs, exponents=0x2000, debug=(0xFFF868, 0xFFF868, 0xFFF800, 0xFFF860),
                 plain=(0xFFF868, 0x68, 0xFFF800, 0xFFF860)),
    frames=replace(_FRAMES, second_twice=True, product=(_ZEROS, _ZEROS)))
