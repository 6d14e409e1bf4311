"""Several processes around one training, started by torchrun.

All have the same batch. Each embeds and compares its share of the rows, and the shares are gathered
with their gradients: every process has the loss of the whole batch, with all its negatives, and the
mean of their gradients is the step of one process, but for rounding. No model knows of this.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import Tensor, distributed, nn
from torch.utils._pytree import tree_leaves, tree_map_only

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import LAUNCHER, process_count, set_device

TIMEOUT = timedelta(hours=6)  # a process waits for another, which validates alone
PARENT_DIED = 1  # PR_SET_PDEATHSIG of linux/prctl.h

Made = TypeVar("Made")


@contextmanager
def process_group(device: torch.device) -> Iterator["ProcessGroup"]:
    """Work with the processes that torchrun has started; alone where it has not.

    Args:
        device: Of this process; decides the backend, nccl for CUDA and gloo otherwise.

    Yields:
        The processes, this one among them.

    Raises:
        WorkbenchError: Another process has ended.
    """
    if process_count() == 1:
        yield ProcessGroup()
        return
    _die_with_parent()
    set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=TIMEOUT)
    try:
        yield ProcessGroup()
    except RuntimeError as error:
        if isinstance(error, distributed.DistError) or "gloo" in str(error):
            raise WorkbenchError(
                "the connection to another process has broken: it has ended, and said why",
                "run the same command to continue",
            ) from error
        raise
    finally:
        distributed.destroy_process_group()


def _die_with_parent() -> None:
    """Let the system end this process with its launcher: it would train on beside the next run."""
    parent = os.environ.get(LAUNCHER)
    if parent is None or not hasattr(ctypes.CDLL(None), "prctl"):
        return
    ctypes.CDLL(None).prctl(PARENT_DIED, signal.SIGKILL)
    if os.getppid() != int(parent):
        os._exit(1)


class ProcessGroup:
    """The processes of one training: those of torch.distributed, or this one alone.

    Attributes:
        world_size: How many there are.
        rank_id: Which of them this is, from 0 on.
        is_sharing: Whether a share of a batch is being computed, for batch norms.
    """

    def __init__(self) -> None:
        several = distributed.is_initialized()
        self.world_size = distributed.get_world_size() if several else 1
        self.rank_id = distributed.get_rank() if several else 0
        self.is_sharing = False

    def local_rows(self, rows: int) -> slice:
        """The rows of a batch that this process computes; the first processes may have one more."""
        least, spare = divmod(rows, self.world_size)
        start = self.rank_id * least + min(self.rank_id, spare)
        return slice(start, start + least + (self.rank_id < spare))

    def shard(self, function: Callable[..., Made], *rows: Any, axis: int = 0) -> Made:
        """What a function makes of rows, of which every process computes its share.

        Gradients go back to all shares. Random numbers in the function differ between processes;
        the generators are left as one process would find them in all of them.

        Args:
            function: From rows to tensors, or tuples of such (or of None), that have these rows
                along `axis`.
            *rows: Tensors (B, ...), or tuples of such, the same in all processes.
            axis: Of the results; 1 for scores whose columns are shared.

        Returns:
            The results of all rows, in every process.
        """
        tensors = [leaf for leaf in tree_leaves(rows) if isinstance(leaf, Tensor)]
        total = len(tensors[0])
        if self.world_size == 1 or total < self.world_size:
            return function(*rows)
        span = self.local_rows(total)
        own = tree_map_only(Tensor, lambda tensor: tensor[span], rows)
        seed = int(torch.randint(1 << 31, ())) + self.rank_id
        devices = {tensor.device for tensor in tensors if tensor.device.type == "cuda"}
        self.is_sharing = True
        try:
            with torch.random.fork_rng(devices=list(devices)):
                torch.manual_seed(seed)
                result = function(*own)
        finally:
            self.is_sharing = False
        whole: Made = tree_map_only(
            Tensor, lambda part: gather_rows(part, span, total, axis), result
        )
        return whole

    def average_gradients(self, module: nn.Module) -> None:
        """Replace gradients by their means over all processes.

        `gather_rows` adds gradients up over processes that all have the whole loss: the mean is the
        gradient of one process.
        """
        if self.world_size == 1:
            return
        for weight in module.parameters():
            if not weight.requires_grad:
                continue
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
            distributed.all_reduce(weight.grad)
            weight.grad /= self.world_size

    def on_rank_zero(self, function: Callable[[], Made]) -> Made:
        """What a function returns in process 0, which alone calls it: it reads and validates."""
        if self.world_size == 1:
            return function()
        result: list[Any] = [function() if self.rank_id == 0 else None]
        distributed.broadcast_object_list(result, src=0)
        value: Made = result[0]
        return value

    def check_equal(self, values: Mapping[str, str]) -> None:
        """Make sure that all processes are of one training.

        Args:
            values: Digests by what they are of.

        Raises:
            WorkbenchError: A process has other ones than process 0.
        """
        if self.world_size == 1:
            return
        everyone: list[Any] = [None] * self.world_size
        distributed.all_gather_object(everyone, dict(values))
        for rank_id, theirs in enumerate(everyone):
            differing = [name for name in values if theirs[name] != everyone[0][name]]
            if differing:
                raise WorkbenchError(
                    f"process {rank_id} has other {', '.join(differing)} than process 0",
                    "give all machines the same params.yaml, data, code and packages",
                )

    def use_common_norms(self, module: nn.Module) -> None:
        """Let batch norms see the rows of all processes; torch's SyncBatchNorm needs GPUs."""
        if self.world_size == 1:
            return
        for norm in module.modules():
            if isinstance(norm, nn.BatchNorm1d | nn.BatchNorm2d):
                norm.__class__ = CommonNorm  # type: ignore[assignment] # keeps weights and moments
                norm.processes = self  # type: ignore[assignment]


def gather_rows(part: Tensor, span: slice, total: int, axis: int) -> Tensor:
    """The shares of all processes in one tensor.

    The gradient of a share is the sum of those in all n processes, each of which has the whole
    loss: `ProcessGroup.average_gradients` divides it by n.

    Args:
        part: The share of this process, (..., b, ...) with b rows along `axis`.
        span: Which rows they are.
        total: Rows of all processes together, B.
        axis: Of the rows.

    Returns:
        (..., B, ...) with B rows along `axis`, the same in all processes.
    """
    shape = list(part.shape)
    shape[axis] = span.start
    before = part.new_zeros(shape)
    shape[axis] = total - span.stop
    after = part.new_zeros(shape)
    gathered: Tensor = _SumOfProcesses.apply(torch.cat([before, part, after], axis))
    return gathered


class _SumOfProcesses(torch.autograd.Function):
    """The sum over all processes, and of its gradients."""

    @staticmethod
    def forward(ctx: Any, values: Tensor) -> Tensor:
        return _sum_over_processes(values)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return _sum_over_processes(gradients[0])


def _sum_over_processes(values: Tensor) -> Tensor:
    """Added as float32 at least, since bf16 keeps 3 digits; integers as int64, since float32 keeps
    only 7 of theirs."""
    least = torch.float32 if values.is_floating_point() else torch.int64
    exact = torch.promote_types(values.dtype, least)
    total = values.to(exact, memory_format=torch.contiguous_format, copy=True)
    distributed.all_reduce(total)
    return total.to(values.dtype)


class CommonNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over the rows of all processes while they share a batch."""

    processes: ProcessGroup

    def _check_input_dim(self, input: Tensor) -> None:
        """Any number of dimensions: that of the norm whose place this takes."""

    def forward(self, values: Tensor) -> Tensor:
        """Values (B, C, ...) with mean 0 and variance 1 for each of C, times weight, plus bias."""
        if not (self.training and self.processes.is_sharing):
            return super().forward(values)
        assert self.running_mean is not None
        assert self.running_var is not None
        assert self.num_batches_tracked is not None
        assert self.momentum is not None
        exact = values.to(torch.promote_types(values.dtype, torch.float32))
        over = [axis for axis in range(values.ndim) if axis != 1]
        shape = (1, -1, *[1] * (values.ndim - 2))
        samples = exact.new_tensor([values.numel() / values.shape[1]])
        total = _SumOfProcesses.apply(torch.cat([exact.sum(over), samples]))
        size = total[-1].detach()
        mean = total[:-1] / size
        centred = exact - mean.view(shape)
        variance = _SumOfProcesses.apply(centred.square().sum(over)) / size
        with torch.no_grad():
            self.num_batches_tracked.add_(1)
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            unbiased = variance * size / (size - 1)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(values.dtype)
