"""What runs on the engine and what on the host, and how many engine programs that takes."""
