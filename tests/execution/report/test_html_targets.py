"""The page of several targets: its data is that of `--json`, names are text alone, and it draws in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.browser import DIGITS, browser, click, complaints, opened, press, requests, texts

import openane as ane
from openane.chips import compiled_generations
from openane.cli import main
from openane.cli.compile_targets import Attempt, results_of
from openane.graph import Graph
from openane.ops.build import GraphBuilder
from openane.report import html
from openane.report.targets import TargetResult, targets_document

HOSTILE = "</script><script>window.hit = 1</script><img src=x onerror='window.hit = 2'>&amp;\u2028{data}{script}"
CONTRAST = (Path(__file__).parents[2] / "support" / "contrast.js").read_text()
needs_browser = pytest.mark.needs("selenium", "chromium")


def wide(name: str = "main", port: str = "x") -> Graph:
    """Tiled for H13 to H15, and not for H16 on."""
    builder = GraphBuilder(name=name)
    x = builder.input(port, "fp16", (1, 8, 1, 20000))
    weight = np.ones((8, 8, 1, 3), np.float16)
    h = builder.single("add", x=builder.single("relu", x=x), y=x)
    return builder.finish({port + "y": builder.single("conv", port + "y", x=h, weight=weight, pad_type="same")})


def results(graph: Graph) -> list[TargetResult]:
    """What every generation makes of the graph."""
    return [each for name in compiled_generations() for each in results_of(Attempt(name, ane.compile(graph, name)))]


def data_of(page: str) -> Any:
    """What the page holds as data."""
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert found is not None
    return json.loads(found[1])


@pytest.fixture(scope="module")
def driver() -> Iterator[Any]:
    with browser() as found:
        yield found


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of a model that is tiled for some, with a target that refuses it."""
    path = tmp_path_factory.mktemp("pages") / "wide.html"
    refused = TargetResult("m99", "h99", ("m99",), refusal="conv: too wide for it")
    path.write_text(html.targets_page("wide.mil", [*results(wide()), refused]), encoding="utf-8")
    return path


def test_the_page_holds_what_json_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--target", "all", "-o", str(tmp_path / "d.ane"), "--page", str(tmp_path / "d.html"), "--json"]
    assert main(["compile", str(DIGITS), *options]) == 0
    document = json.loads(capsys.readouterr().out)
    text = (tmp_path / "d.html").read_text()
    data = data_of(text)
    assert data["model"] == "digits.onnx"
    assert data["columns"] == document["columns"]
    assert data["operations"] == document["operations"]
    for shown, said in zip(data["targets"], document["targets"], strict=True):
        assert shown.pop("time_us") == pytest.approx(said.pop("time_us"))
        assert shown.pop("engine_us") == pytest.approx(said.pop("engine_us"))
        assert shown == said
    assert "<title>digits.onnx for 6 targets</title>" in text
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)


def test_names_are_escaped() -> None:
    found = results(wide(HOSTILE, HOSTILE))
    text = html.targets_page(HOSTILE, found)
    assert text.count("<script") == 2
    assert "<img" not in text
    assert data_of(text)["operations"] == targets_document(found)["operations"]
    assert "<img src=x onerror=" in data_of(text)["operations"][-1]["operation"]


@needs_browser
def test_it_draws_in_silence_and_fetches_nothing(driver: Any, page: Path) -> None:
    opened(driver, page)
    assert [each.get_attribute("id") for each in driver.find_elements("css selector", "main > section")] == [
        "targets", "operations"]
    assert complaints(driver) == []
    assert requests(driver) == []
    assert driver.title == "wide.mil for 7 targets"
    assert texts(driver, 0, "targets") == [*compiled_generations(), "m99 (h99)"]
    assert texts(driver, 2, "targets") == ["9", "9", "9", "2", "2", "2", "\u2013"]
    assert set(texts(driver, 10, "targets")) == {"modelled", "extrapolated", "refused"}
    assert "too wide for it" in driver.find_element("css selector", "#targets .notes").text


@needs_browser
def test_operations_that_differ_come_first_and_say_how(driver: Any, page: Path) -> None:
    opened(driver, page)
    assert texts(driver, 0, "operations") == ["add 'add'", "conv 'xy'"]
    assert [texts(driver, at, "operations") for at in (1, 4)] == [["2", "7"], ["1", "1"]]
    assert len(driver.find_elements("css selector", "#operations-grid .differs")) == 6
    click(driver, "#operations-grid tbody tr:not(.space)", 1)
    side = driver.find_element("css selector", "#operations .side").text
    assert "h13, h14, h15\nengine, 7 tasks" in side
    assert "h16, h17, h18\nengine, 1 task" in side
    driver.execute_script("""const list = document.querySelector('#operations select');
      list.value = ''; list.dispatchEvent(new Event('change'));""")
    assert len(texts(driver, 0, "operations")) == 3
    press(driver, "#operations-grid", "HOME")
    assert "relu" in driver.find_element("css selector", "#operations .side").text


@needs_browser
@pytest.mark.parametrize("dark", [False, True])
def test_it_can_be_read_in_light_and_dark(driver: Any, page: Path, dark: bool) -> None:
    opened(driver, page, dark=dark)
    assert driver.execute_script(CONTRAST) == []


@needs_browser
def test_a_hostile_name_is_only_text(driver: Any, tmp_path: Path) -> None:
    path = tmp_path / "hostile.html"
    refused = TargetResult(HOSTILE, HOSTILE, (HOSTILE,), refusal=HOSTILE)
    path.write_text(html.targets_page(HOSTILE, [*results(wide(HOSTILE, HOSTILE)), refused]), encoding="utf-8")
    opened(driver, path)
    press(driver, "#operations-grid", "ARROW_DOWN")
    assert driver.execute_script("return window.hit === undefined && document.images.length === 0")
    assert driver.execute_script("return document.scripts.length") == 2
    assert complaints(driver) == []
    assert requests(driver) == []
