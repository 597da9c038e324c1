"""Hebb Mind: its routes and its tools."""
