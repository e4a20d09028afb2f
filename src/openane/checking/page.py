"""A check as one page for browsers."""

from __future__ import annotations

from openane.checking.check import Checked
from openane.checking.text import document
from openane.report.html.page import checked_page


def check_page(checked: Checked) -> str:
    """The whole file, UTF-8 text: it fetches nothing."""
    return checked_page(document(checked))
