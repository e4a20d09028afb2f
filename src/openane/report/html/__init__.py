"""A profile as one self-contained HTML file: summary, graph, timeline, memory, tasks, registers, values, comparison."""

from __future__ import annotations

from openane.report.html.compare import compared, read
from openane.report.html.data import gathered
from openane.report.html.graph import OperationPlace
from openane.report.html.page import page, targets_page

__all__ = ["OperationPlace", "compared", "gathered", "page", "read", "targets_page"]
