"""Which of the engine's loops goes through which dimension of a tensor, and how a tensor is split that no single
operation can go through."""
