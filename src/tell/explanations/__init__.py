"""Explanations: facts first (`explain`), then how they are shown (`report`, `plots`)."""

from tell.explanations.comparison import Comparison, compare
from tell.explanations.facts import Explanation, explain
from tell.explanations.html_report import report
from tell.explanations.moves import Moves, explain_change

__all__ = ["Comparison", "Explanation", "Moves", "compare", "explain", "explain_change", "report"]
