"""How an operation on tensors becomes engine operations: one file for each kind."""
