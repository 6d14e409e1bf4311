"""Which kernels libraries choose: not what the shell says."""

from pathlib import Path

import pytest

from pipeline.runtime.kernels import CHOSEN_BY, fix_kernels, kernels


@pytest.mark.parametrize(
    ("flags", "fixed"),
    [
        ("fpu sse2 avx avx2 bmi2", {"OPENBLAS_CORETYPE": "Haswell"}),
        ("fpu sse2 avx avx2\n", {"OPENBLAS_CORETYPE": "Haswell"}),
        ("fpu sse2 avx", {}),
        (None, {}),
    ],
)
def test_variables_of_the_shell_are_dropped(tmp_path: Path, flags, fixed) -> None:
    cpu = tmp_path / "cpuinfo"
    if flags is not None:
        cpu.write_text(f"processor : 0\nflags : {flags}\n")
    environment = {"HOME": "/root", **dict.fromkeys(CHOSEN_BY, "odd")}
    fix_kernels(environment, cpu)
    assert environment == {"HOME": "/root", **fixed}


def test_what_was_chosen_is_told() -> None:
    told = kernels()
    assert any(name.startswith("openblas ") for name in told)
    assert told == kernels()
