"""The prose around the numbers: templates whose $names are filled in."""

from __future__ import annotations

from importlib.resources import files
from string import Template


def template(name: str) -> Template:
    """Read one of `templates/`.

    >>> "soft" in template("theory.md").get_identifiers()
    True
    """
    return Template(files("tell.reproduce").joinpath("templates", name).read_text("utf-8"))
