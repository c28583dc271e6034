"""Solvers that make data: convergent, deterministic, in The Well's format."""
