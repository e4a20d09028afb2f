"""pow on the engine: products and roots where the exponent is a constant they reach, else 2^(y * log2 x) for x > 0.

Products and roots are within (2 + |y|) * 10^-3 of the value, and take negative x where the exponent is whole. The
tables of 2^x and log2 x are within (2 + 6 * |y| + 0.5 * |y * log2 x|) * 10^-3 of it; there x <= 0 counts as 0.
"""

from __future__ import annotations

import math

import numpy as np

from openane.engine import Binary
from openane.ops import tables
from openane.ops.halves import fits
from openane.ops.lowering import Lowering, Tensor, plane_axis
from openane.ops.stages import Stages

LARGEST_WHOLE = 64
"""Whole exponents up to here are made of products: 12 at most."""


def constant_exponent(stages: Stages, target: Tensor, x: Tensor, exponent: float) -> bool:
    """x^exponent. Whole numbers and halves are products, of the inverse where they are negative."""
    roots = {0.5: tables.sqrt, -0.5: tables.rsqrt, -1.0: tables.inverse}
    size = abs(exponent)
    if exponent in roots:
        stages.table(x, roots[exponent](), target=target)
    elif size <= LARGEST_WHOLE and size == int(size):
        whole_power(stages, target, x if exponent >= 0 else stages.table(x, tables.inverse()), int(size))
    elif size <= LARGEST_WHOLE and 2 * size == int(2 * size):
        base = x if exponent >= 0 else stages.table(x, tables.inverse())
        root = stages.table(x, tables.sqrt() if exponent >= 0 else tables.rsqrt())
        stages.times(whole_power(stages, None, base, int(size)), root, target=target)
    elif fits(exponent):
        stages.table(stages.table(x, tables.log2()), tables.exp2(), scale=exponent, target=target)
    else:
        return False
    return True


def whole_power(stages: Stages, target: Tensor | None, x: Tensor, exponent: int) -> Tensor:
    """x^exponent by squaring; exponent 0 gives 1."""
    if exponent == 0:
        return stages.table(x, tables.step(1.0, 1.0, 1.0), target=target)
    if exponent == 1:
        if target is None:
            return x
        stages.lowering.copy(x.expand(stages.shape), target)
        return target
    half = whole_power(stages, None, x, exponent // 2)
    if exponent % 2 == 0:
        return stages.times(half, half, target=target)
    return stages.times(stages.times(half, half), x, target=target)


def constant_base(stages: Stages, target: Tensor, exponent: Tensor, base: float) -> bool:
    """base^y for a positive constant base, as 2^(y * log2 base)."""
    if not (base > 0 and math.isfinite(base) and fits(math.log2(base))):
        return False
    stages.table(exponent, tables.exp2(), scale=float(np.log2(base)), target=target)
    return True


def raised(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor) -> None:
    """x^y for x > 0, both computed by the program: 2^(y log2 x), the product unrounded where the shapes are alike and
    have planes."""
    plane = plane_axis(target.rank)
    if plane is not None and lowering.multiply_planes(target, x, y, plane, tables.log2(), tables.exp2()):
        return
    if plane is not None and target.shape[-1] == 1 and x.shape == target.shape:
        _raised_along_planes(lowering, target, x, y, plane)
        return
    logarithm = Stages(lowering, x.shape).table(x, tables.log2())
    stages = Stages(lowering, target.shape)
    first, second = (logarithm, y) if lowering.limits.pairs else (y, logarithm)
    product = stages.planar(first, second, Binary.MULTIPLY)
    stages.table(product, tables.exp2(), target=target)


def _raised_along_planes(lowering: Lowering, target: Tensor, x: Tensor, y: Tensor, plane: int) -> None:
    """The same for single elements: rows in L2 run along the planes, as in Apple's programs for H18."""
    stages = Stages(lowering, target.shape)
    logarithm = stages.table(x, tables.log2(), target=lowering.near(x.shape, plane))
    product = stages.planar(y, logarithm, Binary.MULTIPLY, target=lowering.near(target.shape, plane))
    stages.table(product, tables.exp2(), target=target)
