import errno

import pytest
import torch

from pipeline.runtime.errors import (
    LESS_MEMORY,
    WorkbenchError,
    damage_named,
    first_line,
    ran_out_of_memory,
)


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


def too_much():
    torch.empty(1 << 60, dtype=torch.uint8)


def test_memory_that_ran_out_is_told_from_damage():
    with pytest.raises(RuntimeError) as torch_says:
        too_much()
    assert ran_out_of_memory(OSError(errno.ENOMEM, "x"))
    for error in (torch_says.value, MemoryError()):
        assert ran_out_of_memory(error)
        with pytest.raises(WorkbenchError, match=r"a\.h5: memory ran out while") as refused:
            raise_within(error)
        assert refused.value.hint == LESS_MEMORY
    for error in (ValueError("5 rows"), OSError(errno.EINVAL, "x")):
        assert not ran_out_of_memory(error)
        with pytest.raises(WorkbenchError, match=r"a\.h5: damaged"):
            raise_within(error)


def raise_within(error):
    with damage_named("a.h5"):
        raise error
