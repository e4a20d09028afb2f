"""The example that reads text: PP-OCR's networks on the engine read what they read on onnxruntime."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import numpy as np
import pytest
from PIL import Image
from support.examples import example_modules
from support.needs import lacking


@pytest.fixture(scope="module")
def example() -> Iterator[SimpleNamespace]:
    """The example's modules."""
    with example_modules("ocr", "boxes", "networks", "page", "read") as modules:
        if modules.networks.model_folder() is None:
            lacking("weights of PP-OCR", modules.networks.INSTALL)
        yield modules


def test_ten_lines_are_read_as_onnxruntime_reads_them(example: SimpleNamespace) -> None:
    folder, page = example.networks.model_folder(), example.page.drawn()
    known = example.networks.characters(folder)
    with example.networks.EngineNetworks(folder, "simulator?arithmetic=fast") as networks:
        found = example.read.read(page, networks, known)
        assert not any(model.host_operations for model in networks.models.values())
    wanted = example.read.read(page, example.networks.RuntimeNetworks(folder), known)
    assert [text for _, text in found] == [text for _, text in wanted]
    plain = [text.replace(" ", "") for text in example.page.LINES]
    assert [text.replace(" ", "") for _, text in found] == plain


def test_a_line_on_its_head_is_turned(example: SimpleNamespace) -> None:
    folder, page = example.networks.model_folder(), example.page.drawn()
    networks = example.networks.RuntimeNetworks(folder)
    turned = page.crop((0, 3 * example.page.ROW, page.width, 4 * example.page.ROW)).rotate(180)
    lines = example.read.read(turned, networks, example.networks.characters(folder))
    assert [text for _, text in lines] == [example.page.LINES[3]]


def test_boxes_are_in_reading_order(example: SimpleNamespace) -> None:
    left, right, below = (10, 10, 50, 30), (60, 12, 90, 33), (10, 40, 50, 60)
    assert example.boxes.in_order([below, right, left]) == [left, right, below]


def test_an_empty_page_has_no_boxes(example: SimpleNamespace) -> None:
    empty = {"detection": lambda x: np.zeros((1, 1, *x.shape[2:]), np.float32)}
    assert example.boxes.find(Image.new("RGB", (100, 70)), empty) == []
