"""For the reference: an example in a docstring is code, also without a heading of its own."""

from __future__ import annotations

import re
from typing import Any

import griffe

BARE_EXAMPLE = re.compile(r"(?:\A|\n\n)(?=>>> )")


class DocstringExamples(griffe.Extension):
    """Give the first `>>>` of a docstring the heading that the parser looks for."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Add the heading where it is missing."""
        text = obj.docstring.value if obj.docstring else ""
        if obj.docstring and "Examples\n---" not in text:
            heading = "\n\nExamples\n--------\n"
            obj.docstring.value = BARE_EXAMPLE.sub(heading, text, count=1)
