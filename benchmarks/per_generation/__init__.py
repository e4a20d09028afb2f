"""What `benchmarks/generations.py` compiles for every generation: networks, blocks, training steps, language models."""
