"""A weight in every form: what is stored gives back what is said, in both spellings, within the form's error."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from openane.chips import compiled_generations, get_chip
from openane.chips.weight_forms import WRITTEN, WeightForm
from openane.graph import Node, TensorType, Value, mil_type
from openane.ops import get_op
from openane.ops.evaluate import evaluate_node
from openane.quantization.forms import Operation, Storing, centres, scales, store

ERRORS = {WeightForm.INT8: 0.012, WeightForm.INT8_BLOCKS: 0.007,
          WeightForm.INT8_OFFSETS: 0.006, WeightForm.INT8_COLUMNS: 0.011, WeightForm.PALETTE4: 0.11,
          WeightForm.PALETTE6: 0.035, WeightForm.SPARSE: 0.3}
"""Largest relative error of normal numbers in each form."""
SHAPES = st.lists(st.integers(1, 9), min_size=2, max_size=4).map(tuple)


def drawn(shape: tuple[int, ...], seed: int, size: float = 1.0, dtype: type = np.float16) -> np.ndarray:
    return (np.random.default_rng(seed).standard_normal(shape) * size).astype(dtype)


def given_back(form: WeightForm, weight: np.ndarray, axis: int, packed: bool) -> tuple[np.ndarray, np.ndarray]:
    """What the operations give, in the weight's element type, and what the store says they do."""
    stored = store(form, weight, axis, Storing(packed=packed))
    made = given_by(stored.operation, {}, weight)
    if stored.behind is not None:
        made = given_by(stored.behind, {"data": Value("w", TensorType(mil_type(made.dtype), made.shape), made)}, weight)
    return made, stored.array


def given_by(operation: Operation, data: dict[str, Value], weight: np.ndarray) -> np.ndarray:
    operands = {**data, **operation.values("w")}
    [found] = get_op(operation.name).infer(operands)
    assert (found.dtype, found.shape) == (mil_type(weight.dtype), weight.shape)
    node = Node(operation.name, operands, (Value("w", TensorType(found.dtype, found.shape)),))
    return evaluate_node(node, {})[0].astype(weight.dtype)


@given(form=st.sampled_from(list(WeightForm)), shape=SHAPES, axis=st.integers(-2, 1), packed=st.booleans(),
       size=st.sampled_from([1e-6, 1e-3, 1.0, 1e3]), dtype=st.sampled_from([np.float16, np.float32]))
def test_the_operation_gives_back_what_the_store_says(form: WeightForm, shape: tuple[int, ...], axis: int,
                                                      packed: bool, size: float, dtype: type) -> None:
    weight = drawn(shape, 1, size, dtype)
    if not weight.any():
        return
    found, said = given_back(form, weight, axis % len(shape), packed)
    assert np.array_equal(found, said)


@pytest.mark.parametrize("form", WeightForm)
@pytest.mark.parametrize("size", [1e-2, 1.0, 100.0])
def test_errors_are_those_of_the_form(form: WeightForm, size: float) -> None:
    weight = drawn((64, 256), 2, size)
    error = np.linalg.norm((store(form, weight, 0).array - weight).astype(float)) / np.linalg.norm(weight.astype(float))
    assert ERRORS[form] / 4 < error < ERRORS[form]


def test_bytes_are_those_of_the_bits() -> None:
    weight = drawn((64, 256), 3)
    count = weight.size
    assert store(WeightForm.INT8, weight, 0).size == count + 64 * 2 + 1 + 4
    assert store(WeightForm.INT8_BLOCKS, weight, 0).size == count + count // 32 * 2
    assert store(WeightForm.INT8_BLOCKS, weight, 0, Storing(block=8)).size == count + count // 8 * 2
    assert store(WeightForm.INT8_OFFSETS, weight, 0).size == count + count // 32 * 3
    assert store(WeightForm.PALETTE4, weight, 0).size == count // 2 + 16 * 2
    assert store(WeightForm.PALETTE6, weight, 0).size == count * 6 // 8 + 64 * 2
    assert store(WeightForm.SPARSE, weight, 0, Storing(0.75)).size == count // 8 + count // 4 * 2


@given(largest=st.floats(1e-7, 6e4), dtype=st.sampled_from([np.float16, np.float32]))
def test_no_scale_cuts_off_the_largest_number(largest: float, dtype: type) -> None:
    """Not even one so small that fp16 has few digits for it."""
    held = np.array([dtype(largest)], np.float32)
    assert float(scales(held, np.dtype(dtype))[0]) * 127.5 >= held[0]


def test_int8_keeps_channels_apart() -> None:
    """A channel of small numbers beside one of large ones loses no more than alone, along either dimension."""
    weight = drawn((8, 64), 4) * np.array([1e-4, 1e-3, 1e-2, 0.1, 1, 10, 100, 500], np.float16)[:, None]
    for turned, axis in ((weight, 0), (np.ascontiguousarray(weight.T), 1)):
        wide = turned.astype(float)
        difference = store(WeightForm.INT8, turned, axis).array - wide
        assert (np.linalg.norm(difference, axis=1 - axis) < 0.012 * np.linalg.norm(wide, axis=1 - axis)).all()


def test_offsets_leave_no_integer_unused() -> None:
    """Numbers on one side of 0 take all 256 integers: half the error; those on both sides a little less."""
    for low, share in ((0.0, 0.52), (-1.0, 1.0)):
        weight = np.random.default_rng(7).uniform(low, 1, (64, 256)).astype(np.float16)
        errors = [np.linalg.norm(store(form, weight, 0).array - weight.astype(float))
                  for form in (WeightForm.INT8_OFFSETS, WeightForm.INT8_BLOCKS)]
        assert errors[0] < share * errors[1]
        [integers] = [store(WeightForm.INT8_OFFSETS, weight, 0).operation.operands["data"][1]]
        assert (integers.min(), integers.max()) == (-128, 127)


def test_scales_for_inputs_keep_columns_apart() -> None:
    """Two columns of large numbers cost the others nothing, along either dimension; scales are powers of two."""
    weight = drawn((64, 256), 8) * np.where(np.arange(256) % 128 == 5, 40, 1).astype(np.float16)
    for turned, axis in ((weight, 0), (np.ascontiguousarray(weight.T), 1)):
        stored = store(WeightForm.INT8_COLUMNS, turned, axis)
        assert stored.behind is not None
        [(_, scale)] = stored.behind.operands.values()
        assert scale.shape == ((1, 256) if axis == 0 else (256, 1))
        assert (np.frexp(scale.astype(float))[0] == 0.5).all()
        assert stored.size == turned.size + 64 * 3 + 256 * 2
        errors = [np.linalg.norm((store(form, turned, axis).array - turned.astype(float)) * (np.abs(turned) < 5))
                  for form in (WeightForm.INT8, WeightForm.INT8_COLUMNS)]
        assert errors[1] < errors[0] / 8


def test_scales_for_inputs_are_left_out_where_they_are_not_worth_their_bytes() -> None:
    for weight in (drawn((7, 64), 9), np.ones((64, 64), np.float16)):
        assert store(WeightForm.INT8_COLUMNS, weight, 0).behind is None


def test_palettes_come_near_the_best_there_are() -> None:
    """Of normal numbers: Max's quantisers of 16 and 64 levels err by 0.0975 and 0.0256."""
    numbers = np.random.default_rng(5).standard_normal(100_000)
    for entries, best in ((16, 0.0975), (64, 0.0256)):
        found = centres(numbers, entries)
        near = found[np.searchsorted((found[1:] + found[:-1]) / 2, numbers)]
        assert np.linalg.norm(near - numbers) / np.linalg.norm(numbers) < 1.03 * best


def test_sparse_drops_the_smallest_and_keeps_zeros() -> None:
    weight = drawn((10, 10), 6)
    weight[:7] = 0
    same = store(WeightForm.SPARSE, weight, 0, Storing()).array
    assert np.array_equal(same, weight), "more than the share are 0 already"
    dropped = store(WeightForm.SPARSE, weight, 0, Storing(0.8)).array
    kept = np.abs(weight[dropped != 0])
    assert kept.size == 20
    assert kept.min() >= np.abs(weight[(dropped == 0) & (weight != 0)]).max()


def test_every_chip_says_what_its_engine_reads() -> None:
    for name in compiled_generations():
        streamed = get_chip(name).facts.streamed
        assert {WeightForm.PALETTE4, WeightForm.SPARSE} <= streamed
        assert (WeightForm.INT8 in streamed) == (name != "h13"), "int8 becomes fp16 on M1"
        assert (WeightForm.INT8_BLOCKS in streamed) == (name not in ("h13", "h14")), "blocks become fp16 before A16"
        assert get_chip(name).facts.folded == {WeightForm.INT8, WeightForm.INT8_BLOCKS} - streamed
    assert set(WRITTEN) == set(WeightForm)
