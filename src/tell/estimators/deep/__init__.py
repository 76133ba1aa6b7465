"""`DeepTELL`: the estimator, its model, its networks, its recipes."""

from tell.estimators.deep.estimator import DeepTELL

__all__ = ["DeepTELL"]
