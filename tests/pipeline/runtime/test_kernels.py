"""Which kernels libraries choose: what params.yaml says, and not what the shell says."""

import os
import subprocess
import sys

import pytest
from corpora import ROOT

from pipeline.runtime.kernels import (
    CHOSEN_BY,
    NATIVE,
    PORTABLE,
    configured_kernels,
    fix_kernels,
    has_avx2,
    kernel_notes,
    loaded_kernels,
)

PRODUCT = """
import hashlib, torch
torch.set_num_threads(1)
drawn = torch.Generator().manual_seed(0)
a = torch.randn(128, 896, generator=drawn)
print(hashlib.sha256((a @ a.T).numpy().tobytes()).hexdigest())
"""


def written(folder, flags):
    """A /proc/cpuinfo with some flags, or the path of none."""
    path = folder / "cpuinfo"
    if flags is not None:
        path.write_text(f"processor : 0\nflags : {flags}\n")
    return path


@pytest.mark.parametrize("choice", ["portable", "native"])
@pytest.mark.parametrize(
    ("flags", "has"),
    [
        ("fpu sse2 avx avx2 bmi2", True),
        ("sse2 avx2\n", True),
        ("fpu sse2 avx", False),
        (None, False),
    ],
)
def test_variables_of_the_shell_are_dropped(tmp_path, flags, has, choice):
    cpu = written(tmp_path, flags)
    environment = {"HOME": "/root", **dict.fromkeys(CHOSEN_BY, "odd")}
    not_used = fix_kernels(environment, choice, cpu)
    fixed = {"portable": PORTABLE, "native": NATIVE}[choice] if has else {}
    assert environment == {"HOME": "/root", **fixed}
    assert not_used == [f"{name}=odd" for name in CHOSEN_BY]
    # what a process hands on to those it starts is its own choice, and nothing to tell
    assert fix_kernels(environment, choice, cpu) == []


def test_what_is_told(tmp_path):
    old, new = written(tmp_path, "sse2"), written(tmp_path / "..", None)
    assert kernel_notes([], "native", old) == []
    assert len(kernel_notes([], "portable", old)) == 1
    (line,) = kernel_notes(["MKL_CBWR=SSE2"], "native", new)
    assert line.startswith("MKL_CBWR=SSE2 of the environment is not used")


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("runtime:\n  kernels: native\n", "native"),
        ("runtime: {kernels: native}\n", "native"),
        ("runtime:\n  kernels: portable\n", "portable"),
        ("runtime:\n  kernels: fastest\n", "portable"),  # load_params refuses it
        ("runtime:\n  threads: 2\n", "portable"),
        ("runtime: [\n", "portable"),
        ("", "portable"),
    ],
)
def test_params_choose(tmp_path, text, expected):
    (tmp_path / "params.yaml").write_text(text)
    assert configured_kernels(tmp_path / "params.yaml") == expected
    assert configured_kernels(tmp_path / "none.yaml") == "portable"


@pytest.mark.skipif(not has_avx2(), reason="the processor has no AVX2")
def test_a_stage_computes_with_what_was_chosen(tmp_path):
    """Set before the libraries are loaded, whatever the shell says: MKL's oldest kernels differ."""

    def digest(script, **shell):
        environment = {name: value for name, value in os.environ.items() if name not in CHOSEN_BY}
        done = subprocess.run(
            [sys.executable, "-c", script],
            cwd=tmp_path,
            env=environment | {"PYTHONPATH": str(ROOT)} | shell,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout

    first = digest("import stages" + PRODUCT)
    assert digest("import stages" + PRODUCT, MKL_CBWR="COMPATIBLE") == first
    assert digest(PRODUCT, MKL_CBWR="COMPATIBLE") != first


def test_what_was_chosen_is_part_of_what_unfinished_work_is_known_by(monkeypatch):
    told = loaded_kernels()
    assert any(name.startswith("openblas ") for name in told)
    assert told == loaded_kernels()
    monkeypatch.setenv("MKL_CBWR", "COMPATIBLE")
    assert told != loaded_kernels()
