"""New weights for a compiled model, written where they lie."""
