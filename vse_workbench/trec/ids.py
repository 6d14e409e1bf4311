"""Ids in files whose columns end at white space."""

import re
from urllib.parse import unquote

_SPECIAL = re.compile(r"[\s%]")


def escaped(name: str) -> str:
    """An id without white space: `%20` for a blank, `%25` for a percent sign."""
    return _SPECIAL.sub(lambda found: "".join(f"%{byte:02X}" for byte in found[0].encode()), name)


def unescaped(name: str) -> str:
    """What `escaped` was given."""
    return unquote(name)
