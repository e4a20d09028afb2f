"""A headless Chromium for tests of pages, which need `selenium` and `chromium`."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from openane.cli import main

DIGITS = Path(__file__).parents[2] / "examples" / "digits" / "digits.onnx"
ARGUMENTS = ("--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,900", "--disable-dev-shm-usage")
KEYS = {"TAB": "\ue004", "ENTER": "\ue007", "ESCAPE": "\ue00c", "END": "\ue010", "HOME": "\ue011",
        "ARROW_LEFT": "\ue012", "ARROW_UP": "\ue013", "ARROW_RIGHT": "\ue014", "ARROW_DOWN": "\ue015"}
"""Names of keys as WebDriver sends them."""
OURS = ("file:", "data:", "about:", "chrome:")


@contextmanager
def browser() -> Iterator[Any]:
    """A driver of selenium's that keeps console and network logs."""
    from selenium import webdriver
    from selenium.webdriver.chrome.service import Service

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium")
    for argument in ARGUMENTS:
        options.add_argument(argument)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:  # Chromium leaves folders behind
        own = {**os.environ, "TMPDIR": folder}
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver"), env=own))
        try:
            yield driver
        finally:
            driver.quit()


def opened(driver: Any, path: Path, *, dark: bool = False) -> None:
    """Loads a page in light or dark and waits until it says that it is ready."""
    scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
    for log in ("browser", "performance"):
        driver.get_log(log)  # an earlier page's
    driver.get(path.as_uri())
    assert driver.execute_script("return document.documentElement.dataset.ready") == "yes"


def complaints(driver: Any) -> list[str]:
    """What the console said since the last time."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requests(driver: Any) -> list[str]:
    """Addresses outside this machine's files that were asked for since the last time."""
    events = [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]
    found = [event["params"]["request"]["url"] for event in events if event["method"] == "Network.requestWillBeSent"]
    return [url for url in found if not url.startswith(OURS)]


def press(driver: Any, selector: str, *keys: str) -> None:
    """Focuses an element and types."""
    element = driver.find_element("css selector", selector)
    driver.execute_script("arguments[0].focus()", element)
    for key in keys:
        driver.switch_to.active_element.send_keys(KEYS.get(key, key))


def click(driver: Any, selector: str, number: int = 0) -> None:
    """Clicks the element of that number a selector finds, in view or not."""
    driver.execute_script("document.querySelectorAll(arguments[0])[arguments[1]].click()", selector, number)


def texts(driver: Any, column: int, grid: str = "tasks") -> list[str]:
    """What a column of a table shows, row by row."""
    rows = f"[...document.querySelectorAll('#{grid}-grid tbody tr:not(.space)')]"
    return list(driver.execute_script(f"return {rows}.map((row) => row.children[{column}].textContent)"))


def digits_report(folder: Path) -> Path:
    """The page of the digits example with all there is to show, made in this folder."""
    first, path = folder / "first.html", folder / "digits.html"
    assert main(["profile", str(DIGITS), "--chip", "m4", "--html", str(first)]) == 0
    assert main(["profile", str(DIGITS), "--html", str(path), "--compare", str(first), "--numbers"]) == 0
    return path
