"""StableHLO loops and branches in text: written out where what they turn on is known, refused where it is not."""

from __future__ import annotations

import numpy as np
import pytest
from support.stablehlo import computed, drawn, module

from openane.errors import FormatError, GraphError, UnsupportedError
from openane.importers.stablehlo import load_stablehlo

X = drawn(3, 5)
LOOP = """%n = stablehlo.constant dense<4> : tensor<i32>
%z = stablehlo.constant dense<0> : tensor<i32>
%o = stablehlo.constant dense<1> : tensor<i32>
%q = stablehlo.slice %x [0:1, 0:1] : (tensor<3x5xf32>) -> tensor<1x1xf32>
%h = stablehlo.reshape %q : (tensor<1x1xf32>) -> tensor<f32>
%s = stablehlo.convert %h : (tensor<f32>) -> tensor<i32>
%w:2 = stablehlo.while(%i = %z, %a = %x) : tensor<i32>, tensor<3x5xf32>
 cond {
  %c = stablehlo.compare LT, %i, %n, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
  stablehlo.return %c : tensor<i1>
 } do {
  %b = stablehlo.add %a, %x : tensor<3x5xf32>
  %j = stablehlo.add %i, %o : tensor<i32>
  stablehlo.return %j, %b : tensor<i32>, tensor<3x5xf32>
 }
%r = stablehlo.reshape %w#1 : (tensor<3x5xf32>) -> tensor<3x5xf32>"""
BRANCHES = """%i = stablehlo.constant dense<7> : tensor<i32>
%r = "stablehlo.case"(%i) ({
  stablehlo.return %x : tensor<3x5xf32>
}, {
  %n = stablehlo.negate %x : tensor<3x5xf32>
  stablehlo.return %n : tensor<3x5xf32>
}) : (tensor<i32>) -> tensor<3x5xf32>"""


@pytest.mark.parametrize(("body", "wanted"), [
    (LOOP, 5 * X), (LOOP.replace("dense<4>", "dense<0>"), X), (BRANCHES, -X), (BRANCHES.replace("<7>", "<0>"), X),
    (BRANCHES.replace("case", "if").replace("<7> : tensor<i32>", "<true> : tensor<i1>"), X),
])
def test_what_is_known_is_written_out(body: str, wanted: np.ndarray):
    np.testing.assert_allclose(computed(module(body, "3x5xf32", x="3x5xf32"), X)[1], wanted, rtol=2e-3)


@pytest.mark.parametrize(("body", "kind", "message"), [
    (LOOP.replace("LT, %i, %n", "LT, %s, %n"), UnsupportedError, "hint: lax.scan or lax.fori_loop"),
    (LOOP.replace("LT, %i, %n", "GE, %i, %z"), UnsupportedError, "limit 1024"),
    ("%r = stablehlo.while(%i = %x) : tensor<3x5xf32>\n cond {", FormatError, "token"),
    ("%r = stablehlo.while(%i = %x)\n cond {", FormatError, "a type for each operand"),
    ('%r = "stablehlo.case"(%x) : (tensor<3x5xf32>) -> tensor<3x5xf32>', GraphError, "has 0 regions"),
    ('%r = "stablehlo.gather"(%x, %x) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [7]>, '
     "slice_sizes = array<i64: 1, 1>}> : (tensor<3x5xf32>, tensor<3x5xf32>) -> tensor<3x5xf32>", GraphError,
     "do not fit"),
], ids=["ends by the data", "does not end", "no body", "no types", "no regions", "other dimensions"])
def test_what_is_not_known_is_refused(body: str, kind: type[Exception], message: str):
    with pytest.raises(kind, match=message):
        load_stablehlo(module(body, "3x5xf32", x="3x5xf32"))
