"""Advice about a model rather than one of its operations: calls, and what the host computes in between."""

from __future__ import annotations

from collections.abc import Iterator

from openane.report.explain.model import Advice, Reason
from openane.report.profile import NumberKind, Profile, weakest

BATCH = 8


def calls(profile: Profile) -> Iterator[Advice]:
    """About handing programs over. Programs there are more of than one because the host computes in between are
    claimed once, whatever number of operations the host has there."""
    known = weakest(NumberKind.MODELLED, profile.dispatch_kind)
    programs, total = len(profile.programs), profile.dispatch * len(profile.programs)
    saved = total - profile.dispatch if programs > 1 else None
    if profile.subject.host:
        what = "runs on the host: how long it takes there is not modelled"
        if saved:
            together = "with the others it" if len(profile.subject.host) > 1 else "it"
            what += f"; {together} splits the model into {programs} programs"
        yield Advice("write host operations with operations of 'ane ops': one program is called once, and tensors are "
                     "not repacked", tuple(Reason(label, what) for label in profile.subject.host), saved,
                     known)
    elif saved:
        yield Advice("chain the programs (device.pipeline), or compile the model as one",
                     (Reason("dispatch", f"{programs} programs are handed over one by one", saved),), saved,
                     known)
    if programs and profile.dispatch > profile.engine_seconds / programs:
        left = profile.dispatch * (1 - 1 / BATCH)
        what = f"handing programs over takes {total / profile.seconds:.0%} of an inference"
        what += "; the gain is that of the one call that is left when the others are saved" if saved else ""
        yield Advice(f"run batches (of {BATCH}: one call for {BATCH} inferences), or keep small models on the CPU",
                     (Reason("dispatch", what, left),), left, known)
