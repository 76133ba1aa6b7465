"""What is true of a fitted model, and how it is shown."""
