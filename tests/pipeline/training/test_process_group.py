"""Processes that share a batch, two of them in earnest: what they compute is what one computes."""

import os
import select
import signal
import socket
from pathlib import Path

import torch
from forked import Child
from torch import nn

from pipeline.runtime.process import LAUNCHER, TORCHRUN
from pipeline.training.process_group import ProcessGroup, _die_with_parent, process_group

ROWS, CHANNELS = 7, 3


def network() -> nn.Module:
    torch.manual_seed(0)
    norm = nn.BatchNorm2d(CHANNELS)
    nn.init.normal_(norm.weight)
    nn.init.normal_(norm.bias)
    return nn.Sequential(norm, nn.Flatten(), nn.Linear(4 * CHANNELS, 2))


def trained(processes: ProcessGroup) -> tuple[torch.Tensor, ...]:
    """Outputs, gradients and moments after a batch whose channels differ in mean and spread."""
    model = network().double()
    processes.use_common_norms(model)
    spread = torch.tensor([1.0, 5.0, 0.1]).view(1, CHANNELS, 1, 1)
    values = (torch.randn(ROWS, CHANNELS, 2, 2) * spread + spread).double()
    outputs = processes.shard(model, values)
    outputs.square().sum().backward()
    processes.average_gradients(model)
    gradients = [weight.grad for weight in model.parameters()]
    return outputs.detach(), *gradients, *model.buffers()


def one_of_two(rank: int, port: int, folder: Path) -> None:
    """As torchrun starts it."""
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), TORCHRUN: "here"}
    with process_group(torch.device("cpu")) as processes:
        assert processes.world_size == 2
        torch.save(trained(processes), folder / f"{rank}.pt")


def test_two_processes_share_batch_norms_and_gradients(tmp_path: Path) -> None:
    """Of seven rows, so that the shares differ."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    both = [Child(f"rank {rank}", one_of_two, rank, port, tmp_path) for rank in range(2)]
    for child in both:
        code, said = child.end()
        assert code == 0, said
    alone = trained(ProcessGroup())
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), alone)


def launch(said: int) -> None:
    """Starts a process that is to end with this one, and that kills this one."""
    launcher = os.getpid()
    os.environ[LAUNCHER] = str(launcher)
    if os.fork() == 0:
        _die_with_parent()
        os.write(said, str(os.getpid()).encode())
        os.kill(launcher, signal.SIGKILL)
    signal.pause()


def test_a_process_ends_with_its_launcher() -> None:
    """Its end of the pipe is closed when it has ended: 60 seconds are a lot for that."""
    heard, said = os.pipe()
    launcher = Child("launcher", launch, said)
    os.close(said)
    started = int(os.read(heard, 20))
    assert launcher.end()[0] == -signal.SIGKILL
    has_ended = select.select([heard], [], [], 60)[0]
    if not has_ended:
        os.kill(started, signal.SIGKILL)
    os.close(heard)
    assert has_ended
