"""Honeycomb: its routes and its tools."""
