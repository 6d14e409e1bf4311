"""Changes of a file that keep most of its structure: pieces doubled, moved, cut out, exchanged."""

import random
import re
import struct

NUMBER = re.compile(rb"\d+(\.\d+)?")
NUMBERS = (b"0", b"-1", b"1e999", b"NaN", b"00", b"2147483648", b"99999999999999999999", b"0.5")
NUMBERS += (b"1" * 5000, b"9007199254740993", b"-0", b"1e-400", b"0x1F", "٣".encode(), b"true")
PIECES = (b"", b"\0", b"\n", b"\r\n", b"\t", b" ", b"\xff\xfe", b"\xef\xbb\xbf", b"\x1b[2J")
PIECES += ("\u202e".encode(), b"\xed\xa0\x80", b"%s", b"../", b"/", b"'", b'"', b"\\", b",", b"#")
PIECES += (b"a" * 3000, "é".encode(), b"null", b"{}", b"[]")
WIDTHS = ("<i", "<q", ">i", "<h", "<f", "<d")
VALUES = (0, 1, -1, 127, 255, 32767)


def mutated(content: bytes, draw: random.Random, signs: bytes = b"", most: int = 4) -> bytes:
    """Content after one to `most` changes."""
    for _ in range(draw.randint(1, most)):
        content = _changed(content, draw, signs)
    return content


def _changed(content: bytes, draw: random.Random, signs: bytes) -> bytes:
    size = len(content)
    start = draw.randrange(size + 1)
    stop = min(size, start + draw.choice((0, 1, 1, 2, 9, 40)))
    kind = draw.randrange(10)
    if kind == 0 and size:
        place = draw.randrange(size)
        flipped = bytes((content[place] ^ 1 << draw.randrange(8),))
        return content[:place] + flipped + content[place + 1 :]
    if kind == 1:
        return content[: draw.randrange(size + 1)]
    if kind == 2:
        return content[:stop] + content[start:]  # a piece twice
    if kind == 3:
        place = draw.randrange(size + 1)
        return content[:place] + content[start:stop] + content[place:]
    if kind == 4:
        return content[:start] + content[stop:]
    if kind == 5:
        return content[:start] + draw.choice(PIECES) + content[stop:]
    if kind == 6:
        found = list(NUMBER.finditer(content[:20_000]))
        if found:
            match = draw.choice(found)
            return content[: match.start()] + draw.choice(NUMBERS) + content[match.end() :]
    if kind == 7 and size > 8:
        form = draw.choice(WIDTHS)
        value = struct.pack(form, draw.choice(VALUES))
        place = draw.randrange(size - len(value) + 1)
        return content[:place] + value + content[place + len(value) :]
    if kind == 8 and signs:
        sign = bytes((draw.choice(signs),))
        return content[:start] + sign * draw.choice((1, 1, 1, 2, 300)) + content[start:]
    lines = content.split(b"\n")
    if len(lines) > 2:
        one, other = draw.randrange(len(lines)), draw.randrange(len(lines))
        lines[one], lines[other] = lines[other], lines[one]
        return b"\n".join(lines)
    return content[:start] + draw.choice(PIECES) + content[start:]
