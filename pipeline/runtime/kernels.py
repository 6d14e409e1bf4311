"""One arithmetic on every processor: which kernels the linear algebra libraries choose.

Left to themselves they choose by the processor, and the last bits of sums differ. `runtime.kernels`
of params.yaml decides: portable, the kernels that every x86-64 processor with AVX2 has; native, the
fastest ones of this processor.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path
from typing import Literal

Choice = Literal["portable", "native"]
# Read by the libraries when they are loaded; none of them is a way to configure a run.
CHOSEN_BY = (
    "OPENBLAS_CORETYPE",
    "MKL_CBWR",
    "MKL_ENABLE_INSTRUCTIONS",
    "MKL_DEBUG_CPU_TYPE",
    "ONEDNN_MAX_CPU_ISA",
    "ONEDNN_CPU_ISA_HINTS",
    "ONEDNN_DEFAULT_FPMATH_MODE",
    "DNNL_MAX_CPU_ISA",
    "DNNL_CPU_ISA_HINTS",
    "DNNL_DEFAULT_FPMATH_MODE",
    "ATEN_CPU_CAPABILITY",
)
# OpenBLAS computes word vectors, sentence vectors and CCA; in seconds with either kernels.
NATIVE = {"OPENBLAS_CORETYPE": "Haswell"}
# and torch's matrix products (MKL), convolutions (oneDNN) and elementwise operations (ATen)
PORTABLE = NATIVE | {
    "MKL_CBWR": "AVX2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "ATEN_CPU_CAPABILITY": "avx2",
}
CPU = Path("/proc/cpuinfo")


def configured_kernels(params: Path = Path("params.yaml")) -> Choice:
    """What params.yaml says, portable where it says nothing; its problems are reported later."""
    from ruamel.yaml import YAML
    from ruamel.yaml.error import YAMLError

    try:
        values = YAML(typ="safe").load(params)
        return "native" if values["runtime"]["kernels"] == "native" else "portable"
    except (OSError, ValueError, KeyError, TypeError, YAMLError):
        return "portable"


def fix_kernels(
    environment: MutableMapping[str, str], choice: Choice = "portable", cpu: Path = CPU
) -> list[str]:
    """Let params.yaml choose the kernels and not the shell, before numpy is loaded. A processor
    without AVX2 keeps its own.

    Args:
        environment: os.environ; variables of CHOSEN_BY are taken out or set.
        choice: runtime.kernels of params.yaml.
        cpu: the file that says what the processor can do.

    Returns:
        Settings of the shell that are not used, as `NAME=value`.
    """
    fixed = (PORTABLE if choice == "portable" else NATIVE) if has_avx2(cpu) else {}
    chosen = {name: environment.pop(name) for name in CHOSEN_BY if name in environment}
    environment.update(fixed)
    return [f"{name}={value}" for name, value in chosen.items() if fixed.get(name) != value]


def kernel_notes(not_used: list[str], choice: Choice, cpu: Path = CPU) -> list[str]:
    """What a user must know of the kernels.

    Args:
        not_used: settings of the shell that `fix_kernels` did not use.
        choice: runtime.kernels of params.yaml.
        cpu: the file that says what the processor can do.

    Returns:
        A line for each; [] where results are equal to those of other machines.
    """
    lines = []
    if not_used:
        lines.append(
            f"{', '.join(not_used)} of the environment is not used: runtime.kernels of "
            "params.yaml chooses"
        )
    if choice == "portable" and not has_avx2(cpu):
        lines.append(
            "this processor is no x86-64 with AVX2: results are close to those of other "
            "machines, not equal"
        )
    return lines


def has_avx2(cpu: Path = CPU) -> bool:
    return cpu.is_file() and "avx2" in cpu.read_text(encoding="utf-8", errors="replace").split()


def loaded_kernels() -> list[str]:
    """What the loaded libraries chose: part of what unfinished work is known by."""
    import torch
    from threadpoolctl import threadpool_info

    chosen = {f"{x['internal_api']} {x.get('architecture', '')}" for x in threadpool_info()}
    asked = [f"{name}={os.environ[name]}" for name in CHOSEN_BY if name in os.environ]
    return [*sorted(chosen), torch.backends.cpu.get_cpu_capability(), *asked]
