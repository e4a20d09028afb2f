"""The documentation site: it builds without a warning, fetches nothing, and is looked at in a browser at two widths.

Pictures of ten pages are kept beside this file, for people to look at (`support.site_pictures`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import browser, complaints
from support.pages import ROOT
from support.site_pictures import FOLDER, KEPT, PAGES, WIDTHS, as_wide_as, build, picture, served

OUTSIDE = re.compile(r'(?:<(?:script|img|iframe)\b[^>]*\bsrc|<link\b[^>]*\bhref)="?https?://(?!localhost)')
MOST_BYTES = 2_000_000
"""Of all pictures together."""
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly."""
    folder = tmp_path_factory.mktemp("site")
    made = build(folder)
    assert made.returncode == 0, made.stdout + made.stderr
    return folder


def test_every_page_of_docs_is_in_the_site(site: Path) -> None:
    pages = {path.relative_to(ROOT / "docs").with_suffix(".html") for path in (ROOT / "docs").rglob("*.md")}
    assert not {path for path in pages if not (site / path).is_file()}


def test_nothing_is_fetched_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    assert len(pages) > 30
    assert not {str(page) for page in pages if OUTSIDE.search(page.read_text())}


def test_pages_from_the_source_say_what_it_says(site: Path) -> None:
    from openane import __all__ as names
    from openane.cli import VERBS

    commands = (site / "reference/commands.html").read_text()
    assert not [verb for verb in VERBS if f'id="ane-{verb}"' not in commands]
    python = (site / "reference/python.html").read_text()
    assert not [name for name in names if f'id="{name.lower()}"' not in python]
    hwx = (site / "formats/hwx.html").read_text()
    assert "first_task_words" in hwx
    assert "<!-- record" not in hwx


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served on this machine."""
    with served(site) as where:
        yield where


@pytest.mark.needs("selenium", "chromium")
def test_pages_fit_phones_and_desktops_and_can_be_read(address: str) -> None:
    with browser() as driver:
        for device in WIDTHS:
            as_wide_as(driver, device)
            for page in PAGES:
                driver.get(f"{address}/{page}.html")
                assert driver.execute_script(WIDER) <= 0, f"{page} is wider than a {device}"
                assert not complaints(driver), page


def test_pictures_of_ten_pages_are_kept() -> None:
    assert len(KEPT) == 10
    assert sorted(FOLDER.iterdir()) == sorted(picture(page, device) for page in KEPT for device in WIDTHS)
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


@pytest.mark.needs("selenium", "chromium")
def test_the_search_finds_a_page_by_keyboard(address: str) -> None:
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    with browser() as driver:
        driver.set_window_size(1280, 900)
        driver.get(f"{address}/index.html")
        wait = WebDriverWait(driver, 30)
        body = driver.find_element("tag name", "body")
        body.send_keys("/")
        field = wait.until(lambda d: d.find_element("css selector", ".md-search__input"))
        wait.until(lambda d: d.switch_to.active_element == field)
        field.send_keys("saturate")
        found = wait.until(lambda d: d.find_elements("css selector", ".md-search-result__link"))
        assert any("arithmetic" in link.get_attribute("href") for link in found)
        field.send_keys(Keys.ESCAPE)
