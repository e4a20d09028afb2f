"""A report in headless Chromium: by mouse, on paper, with thousands of tasks, and with names that would be code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.browser import browser, click, complaints, digits_report, opened, press, requests, texts

import openane as ane
from openane.cli.health import TENSOR
from openane.ops.build import GraphBuilder
from openane.program import Program
from openane.report import ProfileSubject, html, profile

pytestmark = pytest.mark.needs("selenium", "chromium")
HOSTILE = "</script><script>window.hit=1</script><img src=x onerror='window.hit=2'>{{7*7}}\u2028`${window.hit=3}`"

OUTSIDE = """return [...document.querySelectorAll('.cards > div')].flatMap((card) => {
  const box = card.getBoundingClientRect();
  return [...card.querySelectorAll('*')].filter((each) => {
    const own = each.getBoundingClientRect();
    return own.left < box.left || own.right > box.right || own.bottom > box.bottom || each.scrollWidth > box.width;
  }).map((each) => each.textContent);
});"""
"""Texts that are not inside their card."""
BROKEN = """return [...document.querySelectorAll('.cards dt + dd')].filter((each) => {
  const lines = document.createRange();
  lines.selectNodeContents(each);
  return new Set([...lines.getClientRects()].map((line) => Math.round(line.top))).size > 1;
}).map((each) => each.textContent);"""
"""Numbers of cards that take more than one line."""


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def report(driver: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of the digits example with all there is to show."""
    return digits_report(tmp_path_factory.mktemp("reports"))


def test_the_mouse_chooses_moves_and_zooms(driver: Any, report: Path) -> None:
    from selenium.webdriver import ActionChains as actions

    opened(driver, report)
    node = driver.find_element("css selector", "[data-node='3']")
    driver.execute_script("document.getElementById('graph').scrollIntoView({behavior: 'instant'})")
    actions(driver).move_to_element(node).click().perform()
    assert "conv 'conv2.out'" in driver.find_element("css selector", "#graph-side h3").text
    place = "return document.querySelector('#graph svg g').getAttribute('transform')"
    before = driver.execute_script(place)
    node = driver.find_element("css selector", "[data-node='3']")
    actions(driver).click_and_hold(node).move_by_offset(30, -40).release().perform()
    moved = driver.execute_script(place)
    assert moved != before
    click(driver, "#graph .tools button", 2)
    assert driver.execute_script(place).rpartition("scale")[2] != moved.rpartition("scale")[2]
    click(driver, "#graph-side li button")
    assert "Task 1: Convolution" in driver.find_element("css selector", "#task-body h3").text
    for canvas, row in (("#timeline-canvas", 75), ("#memory-canvas", 100)):
        area = driver.find_element("css selector", canvas)
        driver.execute_script("arguments[0].scrollIntoView({behavior: 'instant', block: 'center'})", area)
        height, width = area.size["height"], area.size["width"]
        actions(driver).move_to_element_with_offset(area, 0, row - height // 2).perform()
        assert driver.find_element("css selector", "#tip").is_displayed()
        actions(driver).move_to_element_with_offset(area, 20 - width // 2 + 96, row - height // 2).click().perform()
        assert "Task 0:" in driver.find_element("css selector", "#task-body h3").text
        press(driver, canvas, "ARROW_RIGHT")
    assert complaints(driver) == []


def test_it_prints_in_light_colours_and_comes_back(driver: Any, report: Path) -> None:
    opened(driver, report, dark=True)
    before = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    driver.execute_script("""addEventListener('beforeprint', () => { window.printed = [
      document.documentElement.dataset.theme, document.querySelectorAll('#tasks-grid tr').length]; })""")
    assert driver.execute_cdp_cmd("Page.printToPDF", {})["data"]
    assert driver.execute_script("return window.printed") == ["light", 13]  # heading, ten tasks, two spacers
    assert driver.execute_script("return getComputedStyle(document.body).backgroundColor") == before
    assert complaints(driver) == []


@pytest.mark.parametrize("width", [1400, 900, 500, 360])
def test_no_badge_or_number_leaves_its_card(driver: Any, tmp_path: Path, width: int) -> None:
    build = GraphBuilder()
    model = ane.compile(build.finish({"y": build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))}))
    data = html.gathered(profile(ProfileSubject("cards", "h13", model.programs), "m4"))
    for card in data["cards"]:
        card["kind"] = "extrapolated"
        if card["title"] == "Multiplications":
            card["value"] = 1_260_941_322_999
    path = tmp_path / "cards.html"
    path.write_text(html.page(data), encoding="utf-8")
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    try:
        opened(driver, path)
        assert driver.execute_script(OUTSIDE) == []
        assert driver.execute_script(BROKEN) == []
        assert driver.execute_script("return document.documentElement.scrollWidth <= innerWidth")
    finally:
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_a_hostile_name_is_only_text(driver: Any, tmp_path: Path) -> None:
    build = GraphBuilder(name=HOSTILE)
    model = ane.compile(build.finish({"y": build.single("relu", x=build.input(HOSTILE, "fp16", (1, 8, 4, 40)))}))
    found = profile(ProfileSubject(HOSTILE, "h13", model.programs, {(0, 0): HOSTILE}), "m1")
    plain = {"name": HOSTILE, "chip": HOSTILE, "time_us": 1, "time_by_node_us": {HOSTILE: 1, "__proto__": 2}}
    numbers = {"about": HOSTILE, "tasks": [[0, 1, 0, 0, 0, HOSTILE]], "columns": TENSOR,
               "tensors": [[HOSTILE] * 3 + [0] * 8 + [HOSTILE] * 2]}
    path = tmp_path / "hostile.html"
    origins = [html.OperationPlace(HOSTILE, HOSTILE, HOSTILE)]
    path.write_text(html.page(html.gathered(found, model.graph, origins, numbers, plain)), encoding="utf-8")
    opened(driver, path)
    press(driver, "#tasks-grid", "ARROW_DOWN")
    press(driver, "#graph-drawing", "ARROW_DOWN", "ARROW_DOWN")
    assert driver.execute_script("return window.hit === undefined && document.images.length === 0")
    assert driver.execute_script("return document.scripts.length") == 2
    title = driver.execute_script("return document.getElementById('title').textContent")
    assert HOSTILE.replace("\u2028", "\\u2028") in title  # what breaks lines is shown escaped
    assert complaints(driver) == []
    assert requests(driver) == []
    driver.execute_script("""const late = document.createElement('script');
      late.text = 'window.hit = 4'; document.body.append(late);""")
    assert driver.execute_script("return window.hit === undefined")  # the page's policy holds besides


def test_thousands_of_tasks_take_few_elements(driver: Any, tmp_path: Path) -> None:
    build = GraphBuilder()
    graph = build.finish({"y": build.single("relu", x=build.input("x", "fp16", (1, 8, 4, 40)))})
    program = ane.compile(graph).program
    many = ProfileSubject("many", "h13", tuple(replace(program, name=f"p{n}") for n in range(1000)))
    assert isinstance(program, Program)
    path = tmp_path / "many.html"
    path.write_text(html.page(html.gathered(profile(many, "m1"))), encoding="utf-8")
    assert path.stat().st_size < 2 << 20
    opened(driver, path)
    assert driver.execute_script("return document.querySelectorAll('*').length") < 3000
    press(driver, "#tasks-grid", "END")
    assert texts(driver, 0)[-1] == "999.0"
    click(driver, "#graph .tools button", 4)
    assert driver.execute_script("return document.querySelectorAll('#graph svg *').length") < 1500
    assert complaints(driver) == []
