"""Images as the transformers library prepares them, by what its preprocessor_config.json says."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from openane.errors import FormatError, UnsupportedError
from openane.models.exported.images import of_huggingface, read
from openane.models.exported.resampling import FILTERS, NEAREST, enlarged, resized
from openane.models.exported.sounds import Letters

IMAGE = np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)


@pytest.mark.parametrize("kind", [NEAREST, *FILTERS])
def test_sizes_change_as_in_pillow(kind: int) -> None:
    for height, width in ((20, 33), (90, 70), (50, 25)):
        wanted = np.asarray(Image.fromarray(IMAGE).resize((width, height), kind), np.int64)
        assert np.abs(resized(IMAGE, height, width, kind) - wanted).max() <= 1


@pytest.mark.needs("torch", "transformers")
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "settings"), [
    ("ViT", {}), ("CLIP", {}), ("DeiT", {}), ("Segformer", {}), ("Siglip", {}), ("ConvNext", {}),
    ("ConvNext", {"size": {"shortest_edge": 96}}), ("MobileViT", {}), ("CLIP", {"do_resize": False})])
def test_images_are_prepared_as_the_library_does(family: str, settings: dict[str, Any], tmp_path: Path) -> None:
    import transformers

    made = getattr(transformers, f"{family}ImageProcessorPil")(**settings)
    made.save_pretrained(tmp_path)
    document = json.loads((tmp_path / "preprocessor_config.json").read_text())
    wanted = made(IMAGE, return_tensors="np")["pixel_values"]
    found = of_huggingface(document).of(read(IMAGE))
    assert found.shape == wanted.shape
    steps = np.abs(found - wanted) / (document.get("rescale_factor", 1) / min(document.get("image_std") or [1]))
    assert steps.max() <= 1.01  # of 256


def test_maps_grow_linearly() -> None:
    found = enlarged(np.array([[[0.0, 1.0]]], np.float32), 2, 4)
    assert found.tolist() == [[[0, 0.25, 0.75, 1]] * 2]


def test_what_is_no_image_or_preparation_is_refused() -> None:
    assert read(IMAGE[..., 0]).shape == (50, 70, 3)
    for wrong in (IMAGE.astype(np.float32), IMAGE[0, 0], IMAGE[:0], IMAGE[..., :2]):
        with pytest.raises(FormatError):
            read(wrong)
    for document, kind in (({"size": {"longest_edge": 5}}, FormatError), ({"size": 8, "resample": 9}, UnsupportedError),
                           ({}, UnsupportedError), ({"size": 8, "do_normalize": True, "image_mean": "x"}, FormatError),
                           ({"size": 8, "do_thumbnail": True}, UnsupportedError)):
        with pytest.raises(kind):
            of_huggingface(document)
    assert of_huggingface({"size": {"shortest_edge": 8}}, (6, 10)).of(IMAGE).shape == (1, 3, 6, 10)


def test_letters_of_moments_become_a_text() -> None:
    letters = Letters.of({"<pad>": 0, "|": 1, "a": 2, "b": 3, "</s>": 4}, {"eos_token": {"content": "</s>"}}, 0)
    assert letters.text([2, 2, 0, 2, 3, 1, 1, 0, 3, 4, 0]) == "aab b"
    with pytest.raises(FormatError):
        Letters.of({"a": "b"}, {}, 0)
