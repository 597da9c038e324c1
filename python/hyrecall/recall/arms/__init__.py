"""Carries arms out: reads what a call asks of each, and searches a batch."""
