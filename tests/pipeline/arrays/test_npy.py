"""Headers of .npy files that numpy did not write: a plain error, whatever they say."""

import io
import random

import numpy as np
import pytest

from pipeline.arrays.npy import Header, read_header
from pipeline.runtime.errors import WorkbenchError


def stored() -> bytes:
    file = io.BytesIO()
    np.save(file, np.zeros((2, 3), np.float32))
    return file.getvalue()


def with_header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()


@pytest.mark.parametrize(
    "text",
    [
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2,",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\\",
        "{'descr': \"<f4, 'fortran_order': False, 'shape': (2, 3), }",
        '"""',
        "(" * 3000,
        "[" + "-" * 5000 + "1]",
        "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",), }",
        "{'descr': [('a', '<f4', (1 << 9,))], 'fortran_order': False, 'shape': ()}",
    ],
)
def test_odd_headers_are_plain_errors(text: str) -> None:
    with pytest.raises(WorkbenchError, match=r"^x: damaged, or of another format: "):
        read_header(io.BytesIO(with_header(text)), "x", len(with_header(text)))


@pytest.mark.filterwarnings("ignore")
def test_mutated_headers_are_read_or_refused() -> None:
    generator, whole, read = random.Random(16), stored(), 0
    for _ in range(3000):
        content = bytearray(whole)
        for _ in range(generator.randint(1, 3)):
            content[generator.randrange(128)] = generator.choice(b"(){}[]'\"\\,:<f4 \n\x00\xff#1")
        try:
            read += isinstance(read_header(io.BytesIO(content), "x", len(content)), Header)
        except WorkbenchError:
            continue
    assert 0 < read < 3000
