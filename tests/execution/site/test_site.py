"""The documentation site: it builds without a warning, fetches nothing, and is looked at in a browser at two widths.

The browser's pictures are kept in build/screenshots, for people to look at.
"""

from __future__ import annotations

import functools
import http.server
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.browser import browser, complaints
from support.pages import ROOT

PAGES = ("index", "start/mac", "start/anywhere", "tutorials/first_model", "reference/commands", "reference/python",
         "operations", "formats/hwx", "explanation/arithmetic", "performance", "status", "zoo")
WIDTHS = {"phone": 400, "desktop": 1280}
OUTSIDE = re.compile(r'(?:<(?:script|img|iframe)\b[^>]*\bsrc|<link\b[^>]*\bhref)="?https?://(?!localhost)')
WIDER = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built strictly: a link that leads nowhere, or a page nobody lists, ends the build."""
    folder = tmp_path_factory.mktemp("site")
    made = subprocess.run([sys.executable, "-m", "mkdocs", "build", "--quiet", "--strict", "--site-dir", str(folder)],
                          cwd=ROOT, capture_output=True, text=True, check=False)
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
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=str(site))
    handler.log_message = lambda *arguments: None  # type: ignore[attr-defined]
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()


@pytest.mark.needs("selenium", "chromium")
def test_pages_fit_phones_and_desktops_and_can_be_read(address: str) -> None:
    pictures = ROOT / "build" / "screenshots"
    pictures.mkdir(parents=True, exist_ok=True)
    with browser() as driver:
        for name, width in WIDTHS.items():
            driver.set_window_size(width, 900)
            for page in PAGES:
                driver.get(f"{address}/{page}.html")
                assert driver.execute_script(WIDER) <= 0, f"{page} is wider than a {name}"
                driver.save_screenshot(str(pictures / f"{page.replace('/', '-')}-{name}.png"))
                assert not complaints(driver), page


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
