"""Operators of PyTorch that are refused, and what helps: by name where nothing that is called alike would."""

from __future__ import annotations

from collections.abc import Mapping

from openane.errors import UnsupportedError
from openane.importers.step import unknown_operator
from openane.importers.torch.operators import OPERATORS
from openane.importers.torch.step import DEQUANTISE, PLACES, UNROUNDED, UNROUNDED_ALONE

_FACTORS = "factorise the matrix on the host, before or behind the model: iterations that converge need more than fp16"
_CHOICE = "keep every element, and choose with torch.where"
REMEDIES: Mapping[str, str] = {
    **dict.fromkeys(("_linalg_eigh", "_linalg_svd", "_linalg_slogdet", "linalg_cholesky", "linalg_eig", "linalg_lstsq",
                     "linalg_lu", "linalg_lu_factor_ex", "linalg_matrix_exp", "linalg_pinv", "linalg_qr",
                     "linalg_solve_triangular"), _FACTORS),
    "put": _CHOICE,
    "grid_sampler_3d": "sample slice by slice with grid_sample of images, or on the host",
    **dict.fromkeys(("max_unpool2d", "max_unpool3d"), "positions that max_pool found in the same program, nn.Upsample, "
                    "or a transposed convolution"),
    "nanmedian": "median, with torch.where in place of what is no number",
}
"""What to do instead, by operator."""
PLACES_ALONE = "positions of maxima are given to max_unpool alone"
NO_PLACES = "find them on the host, or with argmax over the elements of a window"


def unknown(label: str, name: str) -> UnsupportedError:
    """The error for an operator nobody imports."""
    if name.startswith(PLACES):
        return UnsupportedError(label, PLACES_ALONE, found=name.removeprefix(PLACES), remedy=NO_PLACES)
    if name.startswith(UNROUNDED):
        return UnsupportedError(label, UNROUNDED_ALONE, found=name.removeprefix(UNROUNDED), remedy=DEQUANTISE)
    if name in REMEDIES:
        return UnsupportedError(label, "this operator is not supported", found=name, remedy=REMEDIES[name])
    return unknown_operator(label, name, OPERATORS, "write it with others")
