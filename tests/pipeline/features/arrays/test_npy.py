"""Headers of .npy files that numpy did not write: a plain error, whatever they say."""

import io

import pytest

from pipeline.features.arrays.npy import read_header
from pipeline.runtime.errors import WorkbenchError


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
