"""Probes of an engine: what a call costs, how fast it multiplies and moves, what fusing and chaining gain."""

from __future__ import annotations

from openane.bench.measure import Measured, measure, probe_all, selected
from openane.bench.probes import PROBES, Probe
from openane.bench.published import PUBLISHED, Published, reproduce

__all__ = ["PROBES", "PUBLISHED", "Measured", "Probe", "Published", "measure", "probe_all", "reproduce",
           "selected"]
