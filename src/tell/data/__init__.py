"""Where rows come from: sources, batches, named data sets."""
