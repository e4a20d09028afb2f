"""The numerics of the engine, apart from programs: fp16 conversions and the multiply-accumulate rule.

    exact    the rule bit by bit
    fast     float32 matrix products with the same rounding points
    auto     exact up to `EXACT_PRODUCTS` products per task, fast beyond
"""

from openane.simulator.arithmetic.exact import matrix_product
from openane.simulator.arithmetic.half import HalfEncoder, decode, decoded, encode_away, encode_even
from openane.simulator.arithmetic.select import EXACT_PRODUCTS, Accumulator, Mode, SumForm, all_finite, saturate
from openane.simulator.arithmetic.winograd import direct_conv3x3, winograd_conv3x3

__all__ = [
           "EXACT_PRODUCTS",
           "Accumulator",
           "HalfEncoder",
           "Mode",
           "SumForm",
           "all_finite",
           "decode",
           "decoded",
           "direct_conv3x3",
           "encode_away",
           "encode_even",
           "matrix_product",
           "saturate",
           "winograd_conv3x3",
]
