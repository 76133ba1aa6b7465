"""How many clusters: solutions for a range of numbers, what speaks for each, one rule."""
