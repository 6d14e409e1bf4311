"""Processes that share a batch, two of them in earnest: what they compute is what one computes."""

from pathlib import Path

import torch
from forked import Child
from torch import distributed, nn

from pipeline.training.process_group import ProcessGroup

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


def one_of_two(rank: int, folder: Path) -> None:
    store = distributed.FileStore(str(folder / "store"), 2)
    distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    torch.save(trained(ProcessGroup()), folder / f"{rank}.pt")
    distributed.destroy_process_group()


def test_two_processes_share_batch_norms_and_gradients(tmp_path: Path) -> None:
    """Of seven rows, so that the shares differ."""
    both = [Child(f"rank {rank}", one_of_two, rank, tmp_path) for rank in range(2)]
    for child in both:
        code, said = child.end()
        assert code == 0, said
    alone = trained(ProcessGroup())
    for rank in range(2):
        torch.testing.assert_close(torch.load(tmp_path / f"{rank}.pt"), alone)
