"""What of a process decides the bits of its results: seeds, threads, device."""

import os
import random
from typing import TYPE_CHECKING

import numpy as np

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import owns_work, say
from pipeline.runtime.threads import allowed_processors, quota_notes

if TYPE_CHECKING:
    import torch

    from pipeline.runtime.section import RuntimeConfig


def seed_everything(seed: int, compiled: bool = False) -> None:
    """Seed python, numpy and torch, and choose kernels that repeat themselves.

    Args:
        seed: from 0.
        compiled: torch.compile is used.
    """
    import torch

    # cuBLAS repeats itself only with workspaces of one size; another size in the shell would give
    # other bits with the same params
    os.environ["CUBLAS_WORKSPACE_CONFIG"] = ":4096:8"
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002 - libraries that draw from the global state
    torch.manual_seed(seed)
    torch.set_deterministic_debug_mode("warn")
    if compiled:  # does the same and tells the compiler, whose import takes two seconds
        torch.use_deterministic_algorithms(True, warn_only=True)
    # nothing here reads memory before it is written, and filling it costs one to five percent
    torch.utils.deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    torch.backends.cudnn.benchmark = False  # it chooses by times and by free memory


def warn_of_gpu_memory(told: int = 0) -> int:
    """Say once that results may not repeat, since the memory of the GPU ran out; call it before
    results are written.

    A convolution that gets no memory for the workspace of its algorithm is no error: torch takes
    the next algorithm, whose last bits differ, and keeps to it (run_single_conv in PyTorch's
    aten/src/ATen/native/cudnn/Conv_v8.cpp). So a training beside others on a full GPU parts from
    its twins. Torch's allocator counts what it has refused.

    Args:
        told: what the last call returned, 0 for the first.

    Returns:
        How often this process was refused memory and went on, 0 without a GPU.
    """
    import torch

    if not torch.cuda.is_initialized():
        return 0
    refused = int(torch.cuda.memory_stats().get("num_ooms", 0))
    if refused and not told:
        say(
            f"warning: the memory of the GPU ran out {refused} times, and convolutions went on "
            "with another algorithm: the last bits of the results may not repeat. To have them "
            "repeat, run it alone on the GPU or with a lower batch_size"
        )
    return refused


def set_threads(threads: int) -> None:
    """Use exactly `threads` threads in torch and in the BLAS libraries of numpy and scipy."""
    import torch
    from threadpoolctl import threadpool_limits

    torch.set_num_threads(threads)
    threadpool_limits(threads)


def pick_device(name: str) -> "torch.device":
    """The torch device for `auto` (CUDA if there is one, else CPU), `cpu` or `cuda`."""
    import torch

    available = torch.cuda.is_available()
    if name == "cuda" and not available:
        raise WorkbenchError(
            "device cuda: torch sees no CUDA device",
            "choose auto or cpu; in params.yaml it is runtime.device",
        )
    return torch.device("cuda" if available and name != "cpu" else "cpu")


def name_of(device: "torch.device") -> str:
    """What tells a device from others that may compute other bits: cards differ."""
    import torch

    if device.type != "cuda":
        return str(device)
    return f"{device} {torch.cuda.get_device_name(device)}"


def say_quota(threads: int) -> None:
    """Tell the user where this process may use fewer processors than it has threads."""
    if owns_work():
        for line in quota_notes(threads, allowed_processors()):
            say(line)


def setup_runtime(
    runtime: "RuntimeConfig", seed: int = 0, compiled: bool = False
) -> "torch.device":
    """Set up a process for repeatable results: seeds, threads, device.

    Args:
        runtime: section of params.yaml.
        seed: from 0; 0 where nothing is drawn, for repeatable kernels alone.
        compiled: torch.compile is used.

    Returns:
        The device to compute on.

    Raises:
        WorkbenchError: runtime.device is cuda and torch sees none.
    """
    say_quota(runtime.threads)
    set_threads(runtime.threads)
    seed_everything(seed, compiled)
    return pick_device(runtime.device)
