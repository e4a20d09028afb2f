"""Graph rewrites that are not about one operation: pure functions from graph to graph, run in the order of `order`."""
