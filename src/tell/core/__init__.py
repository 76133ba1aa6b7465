"""The mathematics of the paper: torch only."""
