"""Explanations: facts first (`explain`), then how they are shown (`write_report`, `plots`)."""

from tell.explanations.comparison import Comparison, compare
from tell.explanations.facts import Explanation, explain
from tell.explanations.report import write_report

__all__ = ["Comparison", "Explanation", "compare", "explain", "write_report"]
