"""Explanations: facts first (`explain`), then how they are shown (`report`, `plots`)."""

from tell.explanations.comparison import Comparison, compare
from tell.explanations.facts import Explanation, explain
from tell.explanations.html_report import report

__all__ = ["Comparison", "Explanation", "compare", "explain", "report"]
