"""Interfaces of other frameworks over an index or a store: a module for each, behind its extra.

Import the module of your framework, such as ``hyrecall.adapters.langchain``. Each adapter needs a
scope: one that has none cannot be made, and a framework's user id or namespace becomes a cell.
"""
