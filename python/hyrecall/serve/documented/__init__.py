"""Replies in the shapes that documents of other systems give, for their routes and tools alike.

Needs no web framework: :mod:`hyrecall.serve.doors` sends them over HTTP, and
:mod:`hyrecall.serve.mcp` as replies of tools.
"""
