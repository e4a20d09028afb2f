"""Conversion between fp16 and float32 by the bits of many numbers at once: what numpy's `astype` gives, bit for bit, in
less than half its time, since numpy converts to and from fp16 one number at a time. Where a compiled loop is at hand
(`machine_code`), it rounds.

Times 2^-112 a float32 has fp16's exponent, and fp16 is its upper half: adding half a unit and shifting rounds a whole
chunk. That is right but for numbers in the middle between two of fp16, one in some thousands: numpy rounds those.
"""

from __future__ import annotations

import numpy as np

from openane.machine_code.patience import patience
from openane.ops.half_products import BIAS, CHUNK, DROPPED, MIDDLE, SIGN, TAKEN
from openane.ops.halves import SMALLEST_NORMAL, halves_finite

LEAST = 1 << 12
"""Fewer numbers than these numpy converts as fast."""
DIGITS, EXPONENTS = 10, 31
"""Binary digits of fp16 behind the first, and the exponent of infinities and NaN: those of numbers are below it."""
FEW = 16
"""A part of so many numbers that is the smallest is picked out one by one."""
INFINITE = 65520.0
"""The smallest number that fp16 rounds to infinity."""
INFINITE_BITS = int(np.float32(INFINITE).view(np.int32))


def to_half(array: np.ndarray, finite: bool = False) -> np.ndarray:
    """A new array in fp16, each number rounded to the nearest and ties to even; what is 65520 or more becomes infinite,
    without a warning. `finite`: there is no such, which spares looking for them."""
    return _one_by_one(array) if _for_numpy(array) else half_and_finite(array, finite)[0]


def half_and_finite(array: np.ndarray, known: bool = False) -> tuple[np.ndarray, bool]:
    """As `to_half`, and whether every number that was made is finite, or that this is `known`."""
    if _for_numpy(array):
        made = _one_by_one(array)
        return made, halves_finite(made) if made.size >= LEAST else bool(np.isfinite(made).all())
    if not array.flags.c_contiguous:
        made, finite = half_and_finite(array.T, known)
        return made.T, finite
    result = np.empty(array.shape, np.float16)
    return result, half_into(result, array, known)


def half_into(result: np.ndarray, array: np.ndarray, known: bool = False) -> bool:
    """Puts float32 numbers, which lie one behind the other and are not none, as `to_half` rounds them into as many of
    fp16 that do; whether all that was made is finite, or that this is `known`."""
    finite, numbers, halves = True, array.reshape(-1), result.reshape(-1)
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        loop = patience().rounder(array.size)
        if loop is not None and loop(numbers, halves.view(np.uint16)) < INFINITE_BITS:
            return True
        scaled, rest = (np.empty(min(CHUNK, array.size), np.int32) for _ in range(2))
        for start in range(0, array.size, CHUNK):
            part = numbers[start:start + CHUNK]
            finite &= _round(part, halves[start:start + CHUNK], scaled[:part.size], rest[:part.size], known)
    return finite


def _for_numpy(array: np.ndarray) -> bool:
    """Whether numbers are few, or of another type or in another order than what is done by bits."""
    return array.size < LEAST or array.dtype != np.float32 or not array.flags.forc


def _one_by_one(array: np.ndarray) -> np.ndarray:
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return array.astype(np.float16)


def all_finite(numbers: np.ndarray) -> bool:
    """Whether fp16 holds every one of some float32 numbers, which are not none."""
    return bool(numbers.max() < INFINITE and numbers.min() > -INFINITE)


def _round(numbers: np.ndarray, halves: np.ndarray, bits: np.ndarray, rest: np.ndarray, known: bool) -> bool:
    """Rounds float32 numbers [n] to fp16 halves [n], and says whether these are finite, which may be `known`; `bits`
    and `rest`, int32 [n], are overwritten."""
    if not known and not all_finite(numbers):
        halves[:] = numbers
        return False
    np.multiply(numbers, np.float32(BIAS), out=bits.view(np.float32))
    middle = _shifted(halves, bits, rest)
    if middle.size:
        halves[middle] = numbers[middle]
    return True


def _shifted(halves: np.ndarray, bits: np.ndarray, rest: np.ndarray) -> np.ndarray:
    """Rounds numbers times BIAS, of which these are the `bits`, but for those in the middle between two of fp16, of
    which it gives the places; `bits` and `rest` are overwritten."""
    np.bitwise_and(bits, 2 * MIDDLE - 1, out=rest)
    middle = np.flatnonzero(rest == MIDDLE)
    np.add(bits, MIDDLE, out=bits)
    np.right_shift(bits, 16, out=rest)
    np.right_shift(bits, DROPPED, out=bits)
    np.bitwise_and(rest, -SIGN, out=rest)
    np.bitwise_or(bits, rest, out=bits)
    halves.view(np.uint16)[:] = bits.view(np.uint32)
    return middle


def half_products_into(result: np.ndarray, numbers: np.ndarray, factors: np.ndarray) -> None:
    """Puts products of float32 numbers, rounded to that, into as many of fp16 that lie one behind the other, as
    `to_half` rounds them; all are finite. `factors`, float32, are broadcast to the numbers. Where none is so small that
    it has fewer digits times BIAS, products are made times that at once: what is less than a normal number of fp16 is
    then rounded to its last digits once and not twice, which makes no difference but in the middle between two."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        small = not np.abs(factors).min(initial=1.0) >= SMALLEST_NORMAL
        if small or numbers.size > 2 * CHUNK or patience().rounder(numbers.size) is not None:
            half_into(result, np.ascontiguousarray(numbers * factors), known=True)
            return
        bits, rest = (np.empty(numbers.size, np.int32) for _ in range(2))
        np.multiply(numbers, factors * np.float32(BIAS), out=bits.view(np.float32).reshape(numbers.shape))
        middle = _shifted(result.reshape(-1), bits, rest)
        if middle.size:
            places = np.unravel_index(middle, numbers.shape)
            result[places] = numbers[places] * np.broadcast_to(factors, numbers.shape)[places]


def from_half(array: np.ndarray) -> np.ndarray:
    """An array in float32; itself where it has that type."""
    if array.dtype != np.float16 or array.size < LEAST or not array.flags.forc or not halves_finite(array):
        return array.astype(np.float32, copy=False)
    if not array.flags.c_contiguous:
        return from_half(array.T).T
    result = np.empty(array.shape, np.float32)
    numbers, halves = result.reshape(-1), array.reshape(-1).view(np.int16)
    loop = patience().widener(array.size)
    if loop is not None:
        loop(halves.view(np.uint16), numbers)
        return result
    for start in range(0, array.size, CHUNK):
        part = numbers[start:start + CHUNK]
        bits = part.view(np.int32)
        bits[:] = halves[start:start + CHUNK]
        np.left_shift(bits, DROPPED, out=bits)
        np.bitwise_and(bits, TAKEN, out=bits)
        np.multiply(part, np.float32(1 / BIAS), out=part)
    return result


def half_times(array: np.ndarray, exponent: int) -> np.ndarray:
    """An array of fp16 times 2^exponent, which is from -100 to 100, each number rounded to the nearest and ties to
    even. Most have another exponent and the same digits; those that are small or become so, or become too large, are
    multiplied in float32."""
    if array.flags.f_contiguous and not array.flags.c_contiguous:
        return half_times(array.T, exponent).T
    array = np.asarray(array, order="C")
    result = np.empty(array.shape, np.float16)
    numbers, made = array.reshape(-1), result.reshape(-1)
    least, most = min(EXPONENTS, max(1, 1 - exponent)), min(EXPONENTS, EXPONENTS - exponent)
    first, count = (np.uint16(each * 2 ** (DIGITS + 1)) for each in (least, max(0, most - least)))
    step, factor = np.uint16(exponent * 2 ** DIGITS % (2 * SIGN)), np.float32(2.0 ** exponent)
    unsigned = np.empty(min(CHUNK, array.size), np.uint16)
    for start in range(0, array.size, CHUNK):
        part, target = numbers[start:start + CHUNK], made[start:start + CHUNK]
        bits, places = part.view(np.uint16), unsigned[:part.size]
        np.add(bits, bits, out=places)  # without the sign
        np.subtract(places, first, out=places)  # what is below becomes large
        others = np.flatnonzero(places >= count)
        np.add(bits, step, out=target.view(np.uint16))
        if others.size:
            where = others if others.size * FEW < part.size else slice(None)
            with np.errstate(invalid="ignore"):  # NaN stay NaN
                target[where] = to_half(from_half(part[where]) * factor)
    return result
