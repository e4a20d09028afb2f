"""Many models or configurations, each compiled, checked and profiled: in parallel, resumable, into one file."""

from __future__ import annotations

from openane.farm.actions import results_of
from openane.farm.job import ACTIONS, FarmJob, Result
from openane.farm.report import document, lines
from openane.farm.settings import read_jobs
from openane.farm.store import Results
from openane.farm.workers import spread

__all__ = ["ACTIONS", "FarmJob", "Result", "Results", "document", "lines", "read_jobs", "results_of", "spread"]
