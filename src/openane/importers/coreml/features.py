"""Inputs and outputs as a model's description states them: arrays with shapes that may be flexible, and images."""

from __future__ import annotations

from collections.abc import Sequence

from openane.errors import GraphError
from openane.formats.protobuf import Message
from openane.importers.coreml.schema import COLOR_SPACES

CHANNELS = {"GRAYSCALE": 1, "GRAYSCALE_FLOAT16": 1, "RGB": 3, "BGR": 3}


def image_color(feature: Message) -> str | None:
    """The colour space of an image feature, None for other features."""
    return COLOR_SPACES.get(feature.type.imageType.colorSpace) if "imageType" in feature.type else None


def pixel_type(color: str, declared: str) -> str:
    """Element type of the pixels of an image whose tensor is declared as `declared`."""
    return declared if color == "GRAYSCALE_FLOAT16" else "uint8"


def default_shape(feature: Message, stated: Sequence[int] = ()) -> tuple[int, ...]:
    """The shape a flexible input has unless another is asked for; empty when the description has none."""
    if "imageType" in feature.type:
        image, color = feature.type.imageType, image_color(feature)
        lead = (1,) * (len(stated) - 3) if stated else ()
        return (*lead, CHANNELS[color], image.height, image.width) if color else ()
    array = feature.type.stateType.arrayType if "stateType" in feature.type else feature.type.multiArrayType
    if array.shape:
        return tuple(array.shape)
    if array.enumeratedShapes.shapes:
        return tuple(array.enumeratedShapes.shapes[0].shape)
    return tuple(max(1, bounds.lowerBound) for bounds in array.shapeRange.sizeRanges)


def _allowed(feature: Message) -> tuple[list[list[int]], list[Message]]:
    """The sizes that are listed, the usual one last, and the range of each dimension, if they are stated."""
    if "imageType" in feature.type:
        image = feature.type.imageType
        sizes = [[each.height, each.width] for each in image.enumeratedSizes.sizes] + [[image.height, image.width]]
        bounds = image.imageSizeRange
        return sizes, [bounds.heightRange, bounds.widthRange] if "imageSizeRange" in image else []
    array = feature.type.multiArrayType
    sizes = [list(each.shape) for each in array.enumeratedShapes.shapes] + [list(array.shape)]
    return sizes, list(array.shapeRange.sizeRanges)


def check_flexibility(feature: Message, shape: Sequence[int]) -> None:
    """GraphError when the description does not allow `shape` (channels, height, width at the end for images)."""
    name, wanted = feature.name, list(shape)
    size = wanted[-2:] if "imageType" in feature.type else wanted
    sizes, ranges = _allowed(feature)
    if size in sizes or (not ranges and sizes == [[]]):
        return
    inside = len(ranges) == len(size) and all(
        bounds.lowerBound <= extent and (bounds.upperBound < 0 or extent <= bounds.upperBound)
        for bounds, extent in zip(ranges, size, strict=True))
    if not inside:
        raise GraphError(f"input {name!r}: the given shape {wanted} is not one the model allows: "
                         f"{' x '.join(map(_range_text, ranges)) or ', '.join(map(str, filter(None, sizes)))}")


def _range_text(bounds: Message) -> str:
    return f"{bounds.lowerBound}..{bounds.upperBound if bounds.upperBound >= 0 else ''}"
