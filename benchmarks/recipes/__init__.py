"""How published error fingerprints are computed: inputs, references and the same on the simulator."""
