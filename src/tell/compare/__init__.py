"""Methods side by side on one data set: each in a process of its own, then ranked."""
