"""The service: HTTP in front of the core. `run.serve` starts it."""
