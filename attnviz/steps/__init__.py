"""Attention written out, with every number and its operands.

Each kind of example has a module, which makes the queries, keys and values of its heads, and their mechanism.
"""
