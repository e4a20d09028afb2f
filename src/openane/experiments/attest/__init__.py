"""Running experiments on an engine, so that neither a hang nor a crash nor a reboot loses or repeats anything."""
