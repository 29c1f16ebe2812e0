"""groupjudge: group-relative rewards from a generative judge."""

__version__ = "0.1.0"

__all__ = ["__version__"]
