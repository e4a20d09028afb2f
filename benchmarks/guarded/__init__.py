"""What the compiler makes of a fixed set of programs, as digests that are listed: see benchmarks/guard.py."""
