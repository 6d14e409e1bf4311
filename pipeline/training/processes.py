"""One training by several processes, started by torchrun.

All draw the same batch; each encodes its share of the rows, and the shares are gathered with their
gradients. So each process computes the loss of the whole batch, with all its negatives, and
DistributedDataParallel's mean of gradients is the step of one process, but for rounding.
"""

import ctypes
import os
import signal
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import timedelta
from typing import Any, TypeVar

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils._pytree import tree_map

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.process import LAUNCHER, process_count, set_device

# what one process may wait for another, which validates alone
PATIENCE = timedelta(hours=6)
PARENT_DIED = 1  # PR_SET_PDEATHSIG of linux/prctl.h

# whether rows of a batch are being encoded of which other processes encode the rest
_dividing: ContextVar[bool] = ContextVar("dividing", default=False)
Made = TypeVar("Made")


def count() -> int:
    return distributed.get_world_size() if distributed.is_initialized() else 1


def number() -> int:
    """Which of them this is, from 0 on."""
    return distributed.get_rank() if distributed.is_initialized() else 0


@contextmanager
def joined(device: torch.device) -> Iterator[None]:
    """Work with the processes that torchrun has started, alone where it has not."""
    if process_count() == 1:
        yield
        return
    _die_with_parent()
    set_device(device)
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=PATIENCE)
    try:
        yield
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


def agree(parts: Mapping[str, str]) -> None:
    """Make sure that all processes are of one training."""
    if count() == 1:
        return
    everyone: list[Any] = [None] * count()
    distributed.all_gather_object(everyone, dict(parts))
    for other, theirs in enumerate(everyone):
        differing = [name for name in parts if theirs[name] != everyone[0][name]]
        if differing:
            raise WorkbenchError(
                f"process {other} has other {', '.join(differing)} than process 0",
                "give all machines the same params.yaml, data, code and packages",
            )


def on_first(function: Callable[[], Made]) -> Made:
    """What a function returns in process 0, which alone calls it: it reads files and validates."""
    if count() == 1:
        return function()
    result: list[Any] = [function() if number() == 0 else None]
    distributed.broadcast_object_list(result, src=0)
    value: Made = result[0]
    return value


def share(rows: int) -> slice:
    """The rows of a batch that this process works on: all of fewer rows than processes. The first
    processes have a row more where they differ."""
    if rows < count():
        return slice(0, rows)
    least, more = divmod(rows, count())
    start, stop = (index * least + min(index, more) for index in (number(), number() + 1))
    return slice(start, stop)


def divided(function: Callable[..., Made], *rows: torch.Tensor) -> Made:
    """What a function makes of rows (B, ...), the same in all processes, each encoding its share.
    Random numbers in it differ between processes; the generators are left in the same state."""
    batch = len(rows[0])
    if count() == 1 or batch < count():
        return function(*rows)
    span = share(batch)
    seed = int(torch.randint(1 << 31, ())) + number()
    on_gpu = {part.device for part in rows if part.device.type == "cuda"}
    token = _dividing.set(True)
    try:
        with torch.random.fork_rng(devices=list(on_gpu)):
            torch.manual_seed(seed)
            result = function(*(part[span] for part in rows))
    finally:
        _dividing.reset(token)

    def gathered(part: torch.Tensor) -> Any:
        """The sum of all shares (b, ...), each at its rows of (B, ...). The gradient of a share is
        the sum of those in all n processes, each of which has the whole loss:
        DistributedDataParallel divides it by n."""
        above, below = (part.new_zeros(n, *part.shape[1:]) for n in (span.start, batch - span.stop))
        return _Sum.apply(torch.cat([above, part, below]))

    whole: Made = tree_map(gathered, result)
    return whole


class _Sum(torch.autograd.Function):
    """The sum over all processes, and of its gradients."""

    @staticmethod
    def forward(ctx: Any, values: torch.Tensor) -> torch.Tensor:
        return _summed(values)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> torch.Tensor:
        return _summed(gradients[0])


def _summed(values: torch.Tensor) -> torch.Tensor:
    """Added as float32 at least, since bf16 keeps 3 digits; integers as int64, since float32 keeps
    only 7 of theirs."""
    least = torch.float32 if values.is_floating_point() else torch.int64
    exact = torch.promote_types(values.dtype, least)
    total = values.to(exact, memory_format=torch.contiguous_format, copy=True)
    distributed.all_reduce(total)
    return total.to(values.dtype)


def averaging(step: nn.Module) -> nn.Module:
    """A module whose gradients become the mean over all processes; wrap it again after freezing
    other parts of it."""
    return step if count() == 1 else DistributedDataParallel(step, find_unused_parameters=True)


def with_common_norms(model: nn.Module) -> nn.Module:
    """The model with batch norms over all processes' batches; torch's SyncBatchNorm needs GPUs."""
    for norm in model.modules() if count() > 1 else ():
        if isinstance(norm, (nn.BatchNorm1d, nn.BatchNorm2d)):
            # keeps its weights and statistics
            norm.__class__ = _CommonNorm  # type: ignore[assignment]
    return model


class _CommonNorm(nn.modules.batchnorm._BatchNorm):
    """Batch norm over the rows of all processes while they share a batch."""

    def _check_input_dim(self, input: torch.Tensor) -> None:
        """Any number of dimensions: that of the norm whose place this takes."""

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """Values (B, C, ...) with mean 0 and variance 1 for each of C, times weight, plus bias."""
        if not (self.training and _dividing.get()):
            return super().forward(values)
        assert self.running_mean is not None
        assert self.running_var is not None
        exact = values.to(torch.promote_types(values.dtype, torch.float32))
        over = [axis for axis in range(values.ndim) if axis != 1]
        shape = (1, -1, *[1] * (values.ndim - 2))
        samples = exact.new_tensor([values.numel() / values.shape[1]])
        total = _Sum.apply(torch.cat([exact.sum(over), samples]))
        size = total[-1].detach()
        mean = total[:-1] / size
        centred = exact - mean.view(shape)
        variance = _Sum.apply(centred.square().sum(over)) / size
        with torch.no_grad():
            assert self.num_batches_tracked is not None
            self.num_batches_tracked.add_(1)
            assert self.momentum is not None
            self.running_mean.lerp_(mean.to(self.running_mean.dtype), self.momentum)
            unbiased = variance * size / (size - 1)
            self.running_var.lerp_(unbiased.to(self.running_var.dtype), self.momentum)
        result = centred * (variance + self.eps).rsqrt().view(shape)
        if self.affine:
            result = result * self.weight.view(shape) + self.bias.view(shape)
        return result.to(values.dtype)
