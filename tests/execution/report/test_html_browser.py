"""A report in headless Chromium: it draws without a word on the console or the network, follows the keys, and can be
read in light and dark."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.browser import DIGITS, KEYS, browser, click, complaints, digits_report, opened, press, requests, texts

import openane as ane
from openane.cli.profile import subject_of
from openane.report import profile

pytestmark = pytest.mark.needs("selenium", "chromium")
SECTIONS = ["summary", "compare", "graph", "timeline", "memory", "tasks", "task", "numbers", "operations"]
CONTRAST = (Path(__file__).parents[2] / "support" / "contrast.js").read_text()


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the digits example with all there is to show."""
    return digits_report(tmp_path_factory.mktemp("reports"))


def test_it_draws_in_silence_and_fetches_nothing(driver: Any, report: Path) -> None:
    opened(driver, report)
    assert [each.get_attribute("id") for each in driver.find_elements("css selector", "main > section")] == SECTIONS
    assert complaints(driver) == []
    assert requests(driver) == []
    assert len(texts(driver, 0)) == 10
    drawn = "return [...document.querySelectorAll('canvas')].every((each) => each.width > 20 && each.height > 20)"
    assert driver.execute_script(drawn)


def test_the_totals_on_the_page(driver: Any, report: Path) -> None:
    opened(driver, report)
    document = profile(subject_of(ane.compile(ane.load_graph(DIGITS))), "m1")
    cards = dict(driver.execute_script("""return [...document.querySelectorAll('#summary .cards div')]
      .map((card) => [card.querySelector('dt').firstChild.data, card.querySelector('dd').textContent])"""))
    assert float(cards["Engine"].split()[0]) == pytest.approx(document.engine_seconds * 1e6, rel=1e-3)
    assert float(cards["One inference"].split()[0]) == pytest.approx(document.seconds * 1e6, rel=1e-3)
    shown = sum(float(text.split()[0]) for text in texts(driver, 6))
    assert shown == pytest.approx(document.engine_seconds * 1e6, rel=1e-3)


def test_tables_sort_and_filter(driver: Any, report: Path) -> None:
    opened(driver, report)
    order = texts(driver, 0)
    click(driver, "#tasks-grid th button", 6)
    times = [float(text.split()[0]) for text in texts(driver, 6)]
    assert times == sorted(times, reverse=True)
    head = driver.find_elements("css selector", "#tasks-grid th")[6]
    assert head.get_attribute("aria-sort") == "descending"
    click(driver, "#tasks-grid th button", 6)
    assert [float(text.split()[0]) for text in texts(driver, 6)] == sorted(times)
    click(driver, "#tasks-grid th button", 0)
    click(driver, "#tasks-grid th button", 0)
    assert texts(driver, 0) == order
    press(driver, "#tasks-filter", "s", "o", "f", "t", "m", "a", "x")
    assert len(texts(driver, 0)) == 5
    assert "5 of 10" in driver.find_element("css selector", "#tasks output").text
    assert driver.find_element("css selector", "#tasks-grid").get_attribute("aria-rowcount") == "6"
    assert complaints(driver) == []


def test_keys_lead_from_the_table_to_the_registers(driver: Any, report: Path) -> None:
    opened(driver, report)
    press(driver, "#tasks-grid", "ARROW_DOWN", "ARROW_DOWN", "END", "HOME", "ARROW_DOWN")
    row = driver.find_element("css selector", "#tasks-grid tr[aria-selected=true]")
    grid = driver.find_element("css selector", "#tasks-grid")
    assert row.find_element("css selector", "td").text == "1"
    assert grid.get_attribute("aria-activedescendant") == row.get_attribute("id")
    press(driver, "#tasks-grid", "ENTER")
    assert driver.switch_to.active_element.get_attribute("id") == "task-body"
    assert "Task 1: Convolution" in driver.find_element("css selector", "#task-body h3").text
    press(driver, ".field[tabindex='0']", "ARROW_DOWN", "ARROW_DOWN")
    assert driver.find_element("css selector", "#tip").is_displayed()
    assert "bits" in driver.find_element("css selector", "#tip").text
    assert len(driver.find_elements("css selector", ".field[tabindex='0']")) == 1
    press(driver, ".field[tabindex='0']", "ESCAPE")
    assert not driver.find_element("css selector", "#tip").is_displayed()
    assert complaints(driver) == []


def test_graph_timeline_and_memory_follow_each_other(driver: Any, report: Path) -> None:
    opened(driver, report)
    press(driver, "#graph-drawing", "ARROW_DOWN", "ARROW_DOWN", "ARROW_DOWN", "ARROW_DOWN")
    side = driver.find_element("css selector", "#graph-side").text
    assert "conv 'conv2.out'" in side
    assert "task 1" in driver.find_element("css selector", "#timeline-now").text
    assert "Task 1 " in driver.find_element("css selector", "#memory-now").text
    press(driver, "#timeline-canvas", "ARROW_RIGHT", "+", "-", "0")
    assert "task 2" in driver.find_element("css selector", "#timeline-now").text
    assert "max_pool" in driver.find_element("css selector", "#graph-side h3").text
    press(driver, "#memory-canvas", "ARROW_LEFT")
    assert "Task 1 " in driver.find_element("css selector", "#memory-now").text
    assert complaints(driver) == []


def test_the_tab_key_reaches_every_part_with_a_visible_focus(driver: Any, report: Path) -> None:
    opened(driver, report)
    driver.execute_script("""window.seen = []; addEventListener('focusin', ({ target }) =>
      seen.push([target.closest('section')?.id || target.tagName, getComputedStyle(target).outlineStyle]))""")
    driver.switch_to.active_element.send_keys(KEYS["TAB"] * 110)
    stops = driver.execute_script("return seen")
    seen, outlines = [name for name, _ in stops], [outline for _, outline in stops]
    assert [name for name in dict.fromkeys(seen) if name in SECTIONS] == \
        [name for name in SECTIONS if name not in ("summary", "task")]
    assert set(outlines) == {"solid"}
    unnamed = """return [...document.querySelectorAll('button, input, select, canvas[tabindex], [role=grid], .drawing')]
      .filter((each) => !each.getAttribute('aria-label') && !each.textContent.trim()).length"""
    assert driver.execute_script(unnamed) == 0


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(driver: Any, report: Path, dark: bool) -> None:
    opened(driver, report, dark=dark)
    press(driver, "#tasks-grid", "ARROW_DOWN", "ARROW_DOWN")
    press(driver, ".field[tabindex='0']")
    assert driver.execute_script(CONTRAST) == []
    before = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    click(driver, "#theme")
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") != before
    assert driver.execute_script(CONTRAST) == []
    click(driver, "#graph .tools button", 1)
    assert driver.execute_script(CONTRAST) == []
