"""What the layers of a network do with an input: measures, observers, and a picture."""

from .observers import Layer, observe

__all__ = ["Layer", "observe"]
