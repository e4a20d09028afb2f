"""Models of images on a device: states, classes, maps of classes, objects, depths."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from openane.chips import DEFAULT_TARGET
from openane.compiler import compile_functions
from openane.devices import Device
from openane.errors import GenerationError
from openane.graph import Graph
from openane.models.exported import images
from openane.models.exported.images import Preparation
from openane.models.exported.resampling import enlarged
from openane.models.loaded import RunningModel
from openane.models.shares import logistic, softmax
from openane.models.tokenizer import Tokenizer

HOST = ("images resized, cropped and normalised",)
"""What a model of images leaves to the host, operations of the model apart."""


@dataclass(frozen=True, slots=True)
class Detected:
    """An object of an image: `box` is left, top, right and bottom in pixels."""

    label: str
    probability: float
    box: tuple[float, float, float, float]


class ImageModel(RunningModel):
    """One model of images on one device. An image is the path of a file, what Pillow opened, or a uint8 array [height,
    width, 3]."""

    def __init__(self, graphs: Sequence[Graph], preparation: Preparation, labels: Sequence[str],
                 device: str | Device | None = None, target: str = DEFAULT_TARGET, cache: bool | str | Path = False,
                 tokenizer: Tokenizer | None = None) -> None:
        """Compiles the graphs, the first of which takes `pixel_values`, and loads them. Errors of compilation and of
        the device."""
        self.preparation, self.labels = preparation, tuple(labels)
        self._function = graphs[0].name
        super().__init__(compile_functions(graphs, target, cache=cache), device, tokenizer, HOST)

    def run(self, image: object) -> dict[str, np.ndarray]:
        """What the model gives for an image, float32, as the library calls it, without the dimension of one image."""
        return self.run_prepared(self.preparation.of(images.read(image)))

    def run_prepared(self, pixels: np.ndarray) -> dict[str, np.ndarray]:
        """As `run`, for pixel values [1, 3, height, width] that are prepared already. GenerationError for another
        shape."""
        wanted = (1, 3, *self.preparation.shape)
        if np.shape(pixels) != wanted:
            raise GenerationError(f"prepared images are {list(wanted)} here, not {list(np.shape(pixels))}")
        found = self._run({"pixel_values": np.asarray(pixels, np.float32)}, self._function)
        return {name: np.asarray(value[0], np.float32) for name, value in found.items()}

    def embed(self, image: object) -> np.ndarray:
        """One vector of an image: what the model's pooler or projection gives, or else its first token's state."""
        found = self.run(image)
        for name in ("image_embeds", "pooler_output"):
            if name in found:
                return found[name].reshape(-1)
        return np.asarray(self._of(found, "last_hidden_state")[0].reshape(-1))

    def classify(self, image: object) -> dict[str, float]:
        """How likely each label is, likeliest first."""
        shares = softmax(self._of(self.run(image), "logits", 1))
        return {self._label(at): float(shares[at]) for at in np.argsort(-shares, kind="stable")}

    def segment(self, image: object) -> np.ndarray:
        """The likeliest class of every pixel, int64 [height, width] of the image; `labels` names them."""
        given = images.read(image)
        logits = self._of(self.run(given), "logits", 3)
        return np.asarray(enlarged(logits, *given.shape[:2]).argmax(0))

    def depth(self, image: object) -> np.ndarray:
        """How far every pixel is, as the model measures it, float32 [height, width] of the image."""
        given = images.read(image)
        found = self._of(self.run(given), "predicted_depth")
        return np.asarray(enlarged(found.reshape(1, *found.shape[-2:]), *given.shape[:2])[0])

    def detect(self, image: object, least: float = 0.5) -> list[Detected]:
        """Objects of at least so high a probability, likeliest first."""
        given = images.read(image)
        found = self.run(given)
        shares = softmax(self._of(found, "logits", 2))[:, :-1]  # the last says that there is none
        height, width = given.shape[:2]
        middle, size = np.split(self._of(found, "pred_boxes") * np.tile([width, height], 2), 2, axis=1)
        corners = np.concatenate([middle - size / 2, middle + size / 2], 1)
        best = shares.max(1)
        return [Detected(self._label(int(shares[at].argmax())), float(best[at]),
                         (float(corners[at, 0]), float(corners[at, 1]), float(corners[at, 2]), float(corners[at, 3])))
                for at in np.argsort(-best, kind="stable") if best[at] >= least]

    def _of(self, found: dict[str, np.ndarray], name: str, rank: int | None = None) -> np.ndarray:
        """An output. GenerationError where the checkpoint does not give it, or gives it for another task."""
        if name not in found or rank not in (None, found[name].ndim):
            given = ", ".join(f"{key} {list(value.shape)}" for key, value in found.items())
            raise GenerationError(f"the checkpoint is for something else: it gives {given}")
        return found[name]

    def _label(self, number: int) -> str:
        return self.labels[number] if number < len(self.labels) else f"LABEL_{number}"


class TowersModel(ImageModel):
    """Images and texts whose vectors lie close together where they go together: functions `image` and `text`."""

    def __init__(self, graphs: Sequence[Graph], preparation: Preparation, padding: int, factor: float, offset: float,
                 alone: bool, device: str | Device | None = None, target: str = DEFAULT_TARGET,
                 cache: bool | str | Path = False, tokenizer: Tokenizer | None = None) -> None:
        """`factor` and `offset` make scores of products of vectors; `alone`: whether each text is likely by itself, or
        as one of those given. `padding` is the token behind a text."""
        self._padding, self._factor, self._offset, self._alone = padding, factor, offset, alone
        self.length = int(graphs[1].inputs[0].shape[1])
        super().__init__(graphs, preparation, (), device, target, cache, tokenizer)

    def embed(self, image: object) -> np.ndarray:
        """The vector of an image, of length one."""
        return _unit(self.run(image)["image_embeds"].reshape(-1))

    def embed_text(self, text: str | Sequence[int]) -> np.ndarray:
        """The vector of a text or its tokens, of length one; what is longer than the model takes is cut, its last token
        kept. GenerationError without a tokenizer."""
        if isinstance(text, str):
            text = self._words().encode_pair(text).tokens
        tokens = list(text) if len(text) <= self.length else [*text[:self.length - 1], text[-1]]
        row = np.full((1, self.length), self._padding, np.int32)
        row[0, :len(tokens)] = tokens
        return _unit(np.asarray(self._run({"input_ids": row}, "text")["text_embeds"], np.float32).reshape(-1))

    def compare(self, image: object, texts: Sequence[str | Sequence[int]]) -> np.ndarray:
        """How likely each text goes with an image, float32 [texts]."""
        scores = np.stack([self.embed_text(text) for text in texts]) @ self.embed(image) * self._factor + self._offset
        return logistic(scores) if self._alone else softmax(scores)


def _unit(vector: np.ndarray) -> np.ndarray:
    return np.asarray(vector / max(np.linalg.norm(vector), np.float32(1e-12)), np.float32)
