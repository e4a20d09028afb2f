"""A compiled model beside the same graph in fp32, operation by operation: what errs, where, and why."""

from __future__ import annotations

from openane.checking.causes import Cause, NumericFault
from openane.checking.check import Checked, check
from openane.checking.page import check_page
from openane.checking.text import document, lines

__all__ = ["Cause", "Checked", "NumericFault", "check", "check_page", "document", "lines"]
