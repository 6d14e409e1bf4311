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


def mutated(content: bytes, draw: random.Random) -> bytes:
    for _ in range(draw.randint(1, 4)):
        content = _changed(content, draw)
    return content


def _changed(content: bytes, draw: random.Random) -> bytes:
    """Another piece in the place of one: nothing, it several times, a part of the rest, a sign."""
    size = len(content)
    start = draw.randrange(size + 1)
    stop = min(size, start + draw.choice((0, 1, 1, 2, 9, 40, size)))
    numbers = list(NUMBER.finditer(content[:20_000]))
    if numbers and draw.random() < 0.2:
        start, stop = draw.choice(numbers).span()
        return content[:start] + draw.choice(NUMBERS) + content[stop:]
    old, other = content[start:stop], draw.randrange(size + 1)
    flipped = bytes(byte ^ 1 << draw.randrange(8) for byte in old[:1]) + old[1:]
    value = struct.pack(draw.choice(WIDTHS), draw.choice(VALUES))
    piece = draw.choice(
        (
            b"",
            flipped,
            old * 2,
            (old * 300)[:3000],
            content[other : other + 40],
            value,
            draw.choice(PIECES),
            old + draw.choice(PIECES),
        )
    )
    return content[:start] + piece + content[stop:]
