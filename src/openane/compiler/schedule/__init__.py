"""Engine operations over virtual buffers become engine operations with addresses, with little traffic."""
