"""Virtual buffers: what they hold, who uses them, and addresses at which those in use together do not overlap."""
