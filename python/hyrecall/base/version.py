"""The version of the package, which saved indexes and stores record."""

__version__ = "0.1.0"
