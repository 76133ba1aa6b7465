"""The paper's fourteen comparison methods under one registry."""

from tell.baselines.registry import METHODS, make, names

__all__ = ["METHODS", "make", "names"]
