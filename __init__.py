"""Learned integral operators for three-dimensional medicine and science.

Four floors, each importing from those below it only: `apps`, `pipelines`, `backbones`, `kernels`.
"""
