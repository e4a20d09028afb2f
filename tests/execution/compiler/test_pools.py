"""Pools of every kernel, stride, padding and size, against the reference."""


import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.h13 import smaller

from openane.compiler import compile

FEW = settings(max_examples=25, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
OPS = ("max_pool", "avg_pool", "l2_pool")


def check(compare, single, op, shape, window, exclude=False, seed=0):
    settings = {"exclude_padding_from_average": exclude} if op == "avg_pool" else {}
    exact = {"absolute": 0, "relative": 0} if op == "max_pool" else {"absolute": 6e-3, "relative": 6e-3}
    return compare(single(op, shape, **window, **settings), seed, **exact)


@FEW
@given(data=st.data(), rank=st.integers(1, 3), batch=st.integers(1, 2), channels=st.integers(1, 5),
       op=st.sampled_from(OPS), pad_type=st.sampled_from(["valid", "same", "same_lower", "custom"]),
       ceiling=st.booleans(), exclude=st.booleans(), seed=st.integers(0, 99))
def test_any_pool(compare, single, data, rank, batch, channels, op, pad_type, ceiling, exclude, seed):
    rank = min(rank, 2) if op == "l2_pool" else rank
    kernel = data.draw(st.tuples(*[st.integers(1, 5)] * rank))
    strides = [data.draw(st.integers(1, k + 1 if pad_type == "valid" and not ceiling else k)) for k in kernel]
    extents = [data.draw(st.integers(k, k + 9)) for k in kernel]
    pad = [data.draw(st.integers(0, k // 2)) for k in kernel]
    window = {"kernel_sizes": list(kernel), "strides": strides, "pad_type": pad_type}
    if pad_type == "custom":
        window["pad"] = [count for count in pad for _ in range(2)]
    window["ceil_mode"] = ceiling and rank < 3 and not pad_type.startswith("same")
    check(compare, single, op, (batch, channels, *extents), window, exclude, seed)


@pytest.mark.parametrize("op", OPS)
@pytest.mark.parametrize(("shape", "window"), [
    ((1, 3, 100), {"kernel_sizes": [70], "pad_type": "valid"}),
    ((1, 2, 100, 5), {"kernel_sizes": [40, 3], "strides": [5, 1], "pad_type": "custom", "pad": [20, 10, 1, 1]}),
    ((2, 2, 3, 90), {"kernel_sizes": [2, 45], "strides": [1, 45], "pad_type": "valid"}),
    ((1, 3, 3, 50), {"kernel_sizes": [2, 50], "pad_type": "valid"}),
    ((1, 2, 33, 34), {"kernel_sizes": [7, 8], "strides": [7, 8], "pad_type": "same"}),
    ((1, 1, 17000), {"kernel_sizes": [3], "strides": [2], "pad_type": "same"}),
    ((1, 1, 17000, 2), {"kernel_sizes": [3, 2], "strides": [1, 1], "pad_type": "custom", "pad": [1, 0, 0, 1]}),
    ((1, 9000, 2, 2), {"kernel_sizes": [2, 1], "pad_type": "valid"}),
    ((2, 3, 40, 20), {"kernel_sizes": [40, 20], "pad_type": "valid"}),
])
def test_pools_beyond_the_fields(compare, single, op, shape, window):
    check(compare, single, op, shape, window)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
def test_pools_over_depth(compare, single, op):
    for window in ({"kernel_sizes": [4, 2, 3], "strides": [2, 2, 1], "pad_type": "custom", "pad": [1, 2, 1, 0, 0, 1]},
                   {"kernel_sizes": [6, 7, 8], "pad_type": "valid"},
                   {"kernel_sizes": [1, 2, 2], "strides": [5, 2, 2], "pad_type": "valid"}):
        check(compare, single, op, (2, 3, 6, 7, 8), window, exclude=True)


@pytest.mark.parametrize("op", ["max_pool", "avg_pool"])
@pytest.mark.parametrize(("shape", "window"), [
    ((2, 3, 70, 150), {"kernel_sizes": [3, 4], "strides": [2, 1], "pad_type": "same"}),
    ((1, 2, 150, 20), {"kernel_sizes": [9, 8], "strides": [5, 3], "pad_type": "same_lower"}),
    ((20, 70, 3, 3), {"kernel_sizes": [2, 2], "pad_type": "valid"}),
])
def test_smaller_machines(monkeypatch, compare, single, op, shape, window):
    """The same pools for a chip of smaller fields: everything is cut by what `Limits` says."""
    smaller(monkeypatch, width=96, height=64, kernel_width=5, kernel_height=4, stride=2, channels=64, groups=8)
    check(compare, single, op, shape, window)


def test_average_is_finite_near_the_largest_number(single, execute):
    model = compile(single("avg_pool", (1, 1, 8, 8), kernel_sizes=[3, 3], pad_type="valid"))
    result = execute(model, {"x": np.full((1, 1, 8, 8), 30000, np.float16)})
    assert np.allclose(next(iter(result.values())), 30000, rtol=2e-3)
