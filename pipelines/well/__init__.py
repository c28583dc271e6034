"""Simulations in The Well's format: where the files lie, what they must hold, statistics, windows for training.

The layout is that of arXiv:2412.00568; `the_well` itself reads it. Extra `pde`.
"""
