"""Probes of an engine: what a call costs, how fast it multiplies and moves, what fusing and chaining gain."""

from __future__ import annotations

from openane.bench.measure import Measured, measure, probe_all, selected, surety, target_of
from openane.bench.probes import GROUPS, PROBES, Probe
from openane.bench.published import NOTES, PUBLISHED, Published, Reproduced, reproduce

__all__ = ["GROUPS", "NOTES", "PROBES", "PUBLISHED", "Measured", "Probe", "Published", "Reproduced", "measure",
           "probe_all", "reproduce", "selected", "surety", "target_of"]
