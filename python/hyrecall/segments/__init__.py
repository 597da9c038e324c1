"""Columns become segments, on a device or on the disk; each change makes a new state."""
