"""For the site: a field of a class is documented by the comment beside or above it."""

from itertools import takewhile
from typing import Any

import griffe


class FieldComments(griffe.Extension):
    """Gives a field without a docstring its comment."""

    def on_attribute(self, *, attr: griffe.Attribute, **_: Any) -> None:
        if attr.docstring or not (attr.parent and attr.parent.is_class and attr.lineno):
            return
        lines = [line.strip() for line in attr.lines_collection[attr.filepath]]
        own = lines[attr.lineno - 1].partition("  # ")[2]
        above = reversed(lines[: attr.lineno - 1])
        over = [line[2:] for line in takewhile(lambda line: line.startswith("# "), above)][::-1]
        if text := own or " ".join(over):
            attr.docstring = griffe.Docstring(text, parent=attr)
