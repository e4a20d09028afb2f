"""The models of benchmarks/zoo.py: where they come from, how one is tried, and what is said of them."""
