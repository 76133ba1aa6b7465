"""Rows on many workers: shards, and the back ends that gather what these compute."""
