"""The same arithmetic whatever the shell: which kernels the linear algebra libraries choose.

They choose by the processor, or by variables of the environment, and kernels add up in different
orders: the last bits of word2vec's vectors change, and with them all that is made of them.
"""

from collections.abc import MutableMapping
from pathlib import Path

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
CPU = Path("/proc/cpuinfo")


def fix_kernels(environment: MutableMapping[str, str], cpu: Path = CPU) -> None:
    """Let nothing but the processor choose, and OpenBLAS not even that where it has AVX2.

    OpenBLAS computes word vectors, sentence vectors and CCA, which are then the same on all such
    processors. Networks run on other libraries, whose faster kernels are worth minutes. To be
    called before numpy is loaded.

    Args:
        environment: of the process, changed.
        cpu: file that says what the processor can do; none on other systems.
    """
    for name in CHOSEN_BY:
        environment.pop(name, None)
    if cpu.is_file() and "avx2" in cpu.read_text(encoding="utf-8", errors="replace").split():
        environment["OPENBLAS_CORETYPE"] = "Haswell"


def kernels() -> list[str]:
    """What the loaded libraries chose: part of what unfinished work is known by."""
    import torch
    from threadpoolctl import threadpool_info

    chosen = {f"{x['internal_api']} {x.get('architecture', '')}" for x in threadpool_info()}
    return [*sorted(chosen), torch.backends.cpu.get_cpu_capability()]
