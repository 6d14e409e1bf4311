"""What Google Takeout calls the record of a photograph.

`IMG_1.jpg` has `IMG_1.jpg.supplemental-metadata.json`, or `IMG_1.jpg.json` in older exports. The
number of a copy moves: `IMG_1(1).jpg` has `IMG_1.jpg(1).json`. Long names are cut, wherever that
is: in the photograph's own name, or in the words behind it (`IMG_1.jpg.supplemental-me.json`).
"""

import re

LONGEST = 46  # characters of a record's name, without its ending and the number of a copy
_BEHIND = "supplemental-metadata"
_COPY = re.compile(r"(?P<name>.+)(?P<number>\(\d+\))", re.DOTALL)


def name_of_photograph(file: str) -> str:
    """What the name of a photograph's record begins with.

    Args:
        file: the photograph's name, without its folder.

    Returns:
        The name, cut, with the number of a copy at its end.
    """
    stem, dot, ending = file.rpartition(".")
    name, number = _without_number(stem)
    return f"{name}{dot}{ending}"[:LONGEST] + number


def names_in_record(stem: str) -> list[str]:
    """What a photograph may be called, as `name_of_photograph` has it.

    Args:
        stem: the name of a record, without its folder and its ending.

    Returns:
        The whole name, and the one without what Takeout writes behind a photograph's name.
    """
    whole, number = _without_number(stem)
    name, dot, word = whole.rpartition(".")
    names = [whole, name] if dot and _BEHIND.startswith(word) else [whole]
    return [f"{name}{number}" for name in names]


def _without_number(stem: str) -> tuple[str, str]:
    """A name without the number of a copy at its end, and that number; "" for none."""
    match = _COPY.fullmatch(stem)
    return (match["name"], match["number"]) if match is not None else (stem, "")
