"""Fixtures of this folder."""

from replicas.places import place, s3_server

__all__ = ["place", "s3_server"]
