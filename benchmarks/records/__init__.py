"""Reading, compiling and comparing records of Apple's compiler, for benchmarks/parity.py."""
