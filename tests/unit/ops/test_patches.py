"""Windows of an image, as a convolution's reference sees them: those of the padded image."""

from __future__ import annotations

import numpy as np
import pytest

from openane.ops.conv import patches
from openane.ops.window import make_window

IMAGE = np.random.default_rng(3).standard_normal((2, 3, 9, 7)).astype(np.float32)


@pytest.mark.parametrize(("kernel", "strides", "pad", "dilations"), [
    ((1, 1), (1, 1), (0, 0, 0, 0), (1, 1)), ((1, 1), (2, 2), (0, 0, 0, 0), (1, 1)),
    ((1, 1), (2, 1), (1, 2, 0, 1), (3, 1)), ((3, 2), (2, 1), (1, 2, 0, 1), (2, 1)),
    ((1, 3), (1, 1), (0, 0, 1, 1), (1, 1)), ((3, 3), (2, 2), (1, 1, 1, 1), (1, 2)),
])
def test_windows_are_those_of_the_padded_image(kernel, strides, pad, dilations) -> None:
    window = make_window("conv", IMAGE.shape[2:], kernel, pad_type="custom", strides=strides, dilations=dilations,
                         pad=pad)
    padded = np.pad(IMAGE, ((0, 0), (0, 0), pad[:2], pad[2:]))
    found = patches(IMAGE, window)
    assert found.shape == (*IMAGE.shape[:2], *window.results, *kernel)
    for place in np.ndindex(window.results):
        for tap in np.ndindex(kernel):
            row, column = (at * step + to * apart for at, step, to, apart in zip(place, strides, tap, dilations,
                                                                               strict=True))
            assert np.array_equal(found[(..., *place, *tap)], padded[..., row, column])
