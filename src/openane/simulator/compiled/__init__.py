"""Loops in machine code, for programs that run long enough: they convert, compute, round, check and store in one pass.

Everything here gives the bits of the numpy form beside it. Only `kernels` decides when it is taken.
"""
