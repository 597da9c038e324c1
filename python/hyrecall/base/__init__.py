"""Foundations of the package: argument checks, files, threads, progress and device detection."""
