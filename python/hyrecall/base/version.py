"""The version of the package, which saved files and stores name."""

__all__ = ["__version__"]

__version__ = "0.1.0"
