"""Loops as machine code: compiled by numba where it is installed, kept, and found again by later processes.

Nothing here is imported unless a loop is brought, but for the descriptions of loops.
"""
