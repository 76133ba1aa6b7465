"""Explanations: facts first (`explain`), then how they are shown (`write_report`, `plots`)."""

from tell.explain.comparison import Comparison, compare
from tell.explain.facts import Explanation, explain
from tell.explain.report import write_report

__all__ = ["Comparison", "Explanation", "compare", "explain", "write_report"]
