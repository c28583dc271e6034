"""Spatial recall: what lies somewhere on a canvas has to be drawn in its last corner."""
