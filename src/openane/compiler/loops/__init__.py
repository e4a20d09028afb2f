"""Which loops of the engine walk a tensor, and how a tensor no operation can walk is split."""
