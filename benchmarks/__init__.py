"""What the product costs: `python -m benchmarks` runs everything and prints one table."""
