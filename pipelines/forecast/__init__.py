"""Surrogates of simulations: what they are given, what they learn, how they run on and how they are scored."""
