"""The definition of hyrecall, slow on purpose: what every reply must be, to the last bit.

It never imports the package. Arithmetic, BM25, typed queries, filters, fusion and recall each have
a file; ``corpus`` draws the random tables and calls that the law tests compare on.
"""
