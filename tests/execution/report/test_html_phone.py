"""Pages on a phone, and names that are longer than their column."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import browser

import openane as ane
from openane.checking import check_page
from openane.cli import main
from openane.ops.build import GraphBuilder

pytestmark = pytest.mark.needs("selenium", "chromium")
WIDTH = 360
SEEN = """const box = arguments[0].getBoundingClientRect();
    const range = document.createRange(), text = arguments[0].querySelector('.ends').lastChild.firstChild;
    range.setStart(text, text.length - 8); range.setEnd(text, text.length);
    const end = range.getBoundingClientRect();
    return end.width > 0 && end.right <= box.right && end.left >= box.left;"""


@pytest.fixture(scope="module", name="phone")
def phone_browser() -> Iterator[Any]:
    """A browser as narrow as a phone."""
    with browser() as found:
        found.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                              {"width": WIDTH, "height": 800, "deviceScaleFactor": 1, "mobile": True})
        yield found


def test_names_that_begin_alike_can_be_told_apart(phone: Any, tmp_path: Path) -> None:
    builder = GraphBuilder()
    x = builder.input("x", "fp16", (1, 16, 1, 8))
    inner = builder.single("relu", x=x, name=f"encoder/{'layers/' * 20}first")
    outer = builder.single("tanh", x=inner, name=f"encoder/{'layers/' * 20}second")
    page = tmp_path / "check.html"
    page.write_text(check_page(ane.check(builder.finish({"y": outer}), {"x": np.zeros((1, 16, 1, 8))})))
    phone.get(page.as_uri())
    cells = phone.find_elements("css selector", "#operations-grid tbody tr:not(.space) td:first-child")
    assert [cell.get_attribute("textContent").split("/")[-1] for cell in cells] == ["first'", "second'"]
    assert all(phone.execute_script(SEEN, cell) for cell in cells)


def test_what_is_known_fits(phone: Any, tmp_path: Path) -> None:
    page = tmp_path / "known.html"
    assert main(["evidence", "--page", str(page)]) == 0
    phone.get(page.as_uri())
    phone.execute_script("for (const each of document.querySelectorAll('details')) each.open = true")
    assert phone.execute_script("return document.documentElement.scrollWidth") <= WIDTH
