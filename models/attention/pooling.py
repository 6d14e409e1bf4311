"""From the cosines of words, or regions, with what they attend to, to one similarity."""

import torch

POOLINGS = ("mean", "lse")


def pool_cosines(
    cosines: torch.Tensor, present: torch.Tensor, pooling: str, lse: float
) -> torch.Tensor:
    """The mean or LogSumExp of cosines (Lee et al. 2018).

    Args:
        cosines: (A, B, Q), zeros where padded.
        present: (A, Q) bool, which of the queries exist.
        pooling: mean, or lse: log(sum exp(lse cosine)) / lse, at most 1 + log(Q) / lse.
        lse: lambda_2, read by lse alone.

    Returns:
        (A, B), 0 where no query exists.
    """
    if pooling == "mean":
        return cosines.sum(2) / present.sum(1, keepdim=True).clamp_min(1)
    empty = ~present.any(1, keepdim=True)
    scaled = (lse * cosines).masked_fill(~(present | empty)[:, None], float("-inf"))
    return (scaled.logsumexp(2) / lse).masked_fill(empty, 0.0)
