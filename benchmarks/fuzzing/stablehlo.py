"""A module of StableHLO as jax.export writes it, with most of what its text has."""

from __future__ import annotations

STABLEHLO = """#loc1 = loc("x")
module @jit_f attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<1x4x4x2xf32> loc("x")) -> (tensor<1x3xf32> {jax.result_info = "result"}) {
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32> loc(#loc2)
    %w = stablehlo.constant dense<[[0.5, 1.0, -2.0], [1.5, 0.25, 3.0]]> : tensor<2x3xf32>
    %k = stablehlo.constant dense<"0x0000803F000000BF0000003F0000803F"> : tensor<1x1x2x2xf32>
    %0 = stablehlo.convolution(%arg0, %k) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f],
      window = {pad = [[0, 0], [0, 0]]} {feature_group_count = 1 : i64} :
      (tensor<1x4x4x2xf32>, tensor<1x1x2x2xf32>) -> tensor<1x4x4x2xf32>
    %1 = "stablehlo.reduce_window"(%0, %cst) <{window_dimensions = array<i64: 1, 4, 4, 1>}> ({
    ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %m = stablehlo.maximum %a, %b : tensor<f32>
      stablehlo.return %m : tensor<f32>
    }) : (tensor<1x4x4x2xf32>, tensor<f32>) -> tensor<1x1x1x2xf32>
    %2 = stablehlo.reshape %1 : (tensor<1x1x1x2xf32>) -> tensor<1x2xf32>
    %3 = stablehlo.dot_general %2, %w, contracting_dims = [1] x [0] :
      (tensor<1x2xf32>, tensor<2x3xf32>) -> tensor<1x3xf32>
    %4 = call @relu(%3) : (tensor<1x3xf32>) -> tensor<1x3xf32> loc(#loc2)
    return %4 : tensor<1x3xf32>
  }
  func.func private @relu(%arg0: tensor<1x3xf32>) -> tensor<1x3xf32> {
    %cst = stablehlo.constant dense<0.0> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x3xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x3xf32>
    return %1 : tensor<1x3xf32>
  }
}
#loc2 = loc("jit(f)/dot"(callsite("f.py":1:2 at #loc1)))
"""
