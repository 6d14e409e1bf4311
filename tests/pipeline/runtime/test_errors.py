import pytest

from pipeline.runtime.errors import first_line


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("one\ntwo"), "one"),
        (KeyError("a name"), "a name"),
        (ValueError(), "ValueError"),
        (RuntimeError("\n"), "RuntimeError"),
    ],
)
def test_first_line_of_what_an_exception_says(error, line):
    assert first_line(error) == line
