"""The command `tell`: one file per command."""
