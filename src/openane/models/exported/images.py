"""Images as a model takes them: resized, cropped, scaled and normalised as `preprocessor_config.json` says."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from openane.errors import FormatError, UnsupportedError
from openane.models.config_document import ConfigDocument
from openane.models.documents import PREPROCESSOR
from openane.models.exported.resampling import FILTERS, NEAREST, resized
from openane.version import pip_line

MOST_PIXELS = 1 << 28
REMEDY = "prepare images yourself, and give run_prepared() pixel values"
_UNKNOWN = ("do_crop_margin", "do_thumbnail", "do_align_long_axis", "rescale_offset", "do_convert_grayscale")
"""Steps that no preparation here has."""


@dataclass(frozen=True, slots=True)
class Preparation:
    """`shape`: height and width the model takes. `resize`: what an image is resized to first: a height and width, or
    the length of its shorter side (0: it keeps its size); what is larger than `shape` then is cropped around its
    middle, what is smaller gets black borders."""

    shape: tuple[int, int]
    resize: tuple[int, int] | int
    resample: int = 2
    scale: float = 1 / 255
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)
    reversed_channels: bool = False

    def of(self, image: np.ndarray) -> np.ndarray:
        """A uint8 image [height, width, 3] as the model's input, float32 [1, 3, height, width]."""
        found = image
        if self.resize:
            found = resized(image, *self._size(image.shape[0], image.shape[1]), self.resample)
        found = _cropped(found, *self.shape)
        values = (found.astype(np.float32) * np.float32(self.scale) - np.array(self.mean, np.float32)) \
            / np.array(self.deviation, np.float32)
        values = values[..., ::-1] if self.reversed_channels else values
        return np.ascontiguousarray(values.transpose(2, 0, 1)[None])

    def _size(self, height: int, width: int) -> tuple[int, int]:
        if isinstance(self.resize, tuple):
            return self.resize
        shorter = min(height, width)
        return int(self.resize * height / shorter), int(self.resize * width / shorter)


def of_huggingface(document: Mapping[str, Any], shape: tuple[int, int] | None = None) -> Preparation:
    """What a `preprocessor_config.json` says, for a model of `shape` (None: the shape it states). Where it leaves the
    other side to the image and crops nothing, images are resized to the shape, whatever that does to their sides.
    FormatError for values that are none, UnsupportedError for steps that are not built here."""
    _require_known(document)
    resize, own = _sizes(document)
    wanted = shape or own
    if wanted is None:
        raise UnsupportedError(PREPROCESSOR, "it states no size of images that is one shape",
                               found=document.get("size"), remedy="give it: image=(height, width)")
    if shape is not None and shape != own:
        resize = shape  # another shape than was meant: nothing is cropped
    if not document.get("do_resize", True):
        resize = 0
    normalised, read = document.get("do_normalize"), ConfigDocument(document, PREPROCESSOR)
    return Preparation(
        wanted, wanted if resize is None else resize, _filter(document.get("resample", 2)),
        read.real("rescale_factor", 1 / 255) if document.get("do_rescale", True) else 1.0,
        _numbers(document, "image_mean", (0.0,)) if normalised else (0.0,),
        _numbers(document, "image_std", (1.0,)) if normalised else (1.0,),
        bool(document.get("do_flip_channel_order", False)))


def read(image: object) -> np.ndarray:
    """An image, uint8 [height, width, 3]: the path of a file (read by Pillow), what Pillow opened, or an array [height,
    width] or [height, width, 3 or 4] of uint8. FormatError for anything else."""
    if isinstance(image, str | Path):
        image = _opened(Path(image))
    found = np.asarray(image)
    if found.dtype != np.uint8 or found.ndim not in (2, 3) or 0 in found.shape or found.size > MOST_PIXELS:
        raise FormatError("an image", expected="uint8 [height, width, 3]", found=f"{found.dtype} {list(found.shape)}")
    found = found[..., None] if found.ndim == 2 else found
    if found.shape[2] not in (1, 3, 4):
        raise FormatError("an image's channels", expected="1, 3 or 4", found=found.shape[2])
    return np.repeat(found, 3, 2) if found.shape[2] == 1 else found[..., :3]


def _opened(path: Path) -> Any:
    try:
        from PIL import Image
    except ImportError:
        raise UnsupportedError("reading image files", "needs the pillow package",
                               remedy=pip_line("pretrained")) from None
    try:
        with Image.open(path) as image:
            return image.convert("RGB")
    except OSError as error:
        raise FormatError(f"{path} is no image that can be read: {error}") from None


def _sizes(document: Mapping[str, Any]) -> tuple[tuple[int, int] | int | None, tuple[int, int] | None]:
    """What is resized to (None: to the model's shape), and the shape, where these are stated."""
    size = _size(document.get("size"))
    if "crop_pct" in document and isinstance(size, int):
        shape = (size, size)
        share = ConfigDocument(document, PREPROCESSOR).real("crop_pct", 1.0)
        return (int(size / share) if size < 384 else shape), shape
    crop = _size(document.get("crop_size")) if document.get("do_center_crop") else None
    if crop is not None:
        return size, crop if isinstance(crop, tuple) else (crop, crop)
    return (None, (size, size)) if isinstance(size, int) else (size, size)


def _size(stated: Any) -> tuple[int, int] | int | None:
    """A height and width, or a shorter side; None where nothing is stated."""
    if stated is None or _extent(stated):
        return stated if stated is None else int(stated)
    if isinstance(stated, Mapping):
        both = stated.get("height"), stated.get("width")
        if all(map(_extent, both)):
            return int(both[0]), int(both[1])  # type: ignore[arg-type]
        if _extent(stated.get("shortest_edge")):
            return int(stated["shortest_edge"])
    if isinstance(stated, Sequence) and len(stated) == 2 and all(map(_extent, stated)):
        return int(stated[0]), int(stated[1])
    raise FormatError(f"a size in {PREPROCESSOR}", expected="a height and width, or a shortest_edge",
                      found=stated)


def _extent(value: object) -> bool:
    return type(value) is int and 0 < value <= 1 << 14


def _cropped(image: np.ndarray, height: int, width: int) -> np.ndarray:
    """The middle of an image, with black borders where it is smaller."""
    made = np.zeros((height, width, image.shape[2]), np.uint8)
    source, target = [], []
    for have, want in zip(image.shape[:2], (height, width), strict=True):
        count, before = min(have, want), max(have - want, 0) // 2
        after = -(-max(want - have, 0) // 2)
        source.append(slice(before, before + count))
        target.append(slice(after, after + count))
    made[target[0], target[1]] = image[source[0], source[1]]
    return made


def _filter(number: object) -> int:
    if type(number) is not int or (number not in FILTERS and number != NEAREST):
        raise UnsupportedError(f"resample of {PREPROCESSOR}", "is no filter that is described",
                               limit=", ".join(map(str, (NEAREST, *FILTERS))), found=number,
                               remedy=REMEDY)
    return number


def _numbers(document: Mapping[str, Any], name: str, default: tuple[float, ...]) -> tuple[float, ...]:
    found = document.get(name) or default
    if not isinstance(found, Sequence) or len(found) not in (1, 3) or any(type(n) not in (int, float) for n in found):
        raise FormatError(f"{name!r} of {PREPROCESSOR}", expected="a number for each channel", found=found)
    return tuple(map(float, found))


def _require_known(document: Mapping[str, Any]) -> None:
    unknown = next((name for name in _UNKNOWN if document.get(name)), None)
    if unknown is not None:
        raise UnsupportedError(f"{unknown} of {PREPROCESSOR}", "this step is not built here",
                               found=document[unknown], remedy=REMEDY)
