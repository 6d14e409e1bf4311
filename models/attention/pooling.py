"""From the cosines of words, or regions, with what they attend to, to one similarity."""

from torch import Tensor

from models.layers.linear import length_mask


def pool_cosines(cosines: Tensor, lengths: Tensor, pooling: str, lse: float) -> Tensor:
    """One similarity per pair from the cosines of its words or regions (Lee et al. 2018).

    Args:
        cosines: (A, B, Q) of the queries with what they attend to.
        lengths: (A,) queries that exist.
        pooling: mean, or lse: log(sum exp(lse cosine)) / lse, at most 1 + log(Q) / lse.
        lse: lambda_2, read by the pooling of that name alone.

    Returns:
        (A, B), 0 where no query exists.

    Raises:
        ValueError: another pooling.
    """
    if pooling not in ("mean", "lse"):
        raise ValueError(f"pooling {pooling!r}: allowed are mean and lse")
    present = length_mask(lengths, cosines.shape[2], cosines.device)
    if pooling == "mean":
        return cosines.sum(2) / present.sum(1, keepdim=True).clamp_min(1)
    empty = ~present.any(1, keepdim=True)
    scaled = (lse * cosines).masked_fill(~(present | empty)[:, None], float("-inf"))
    return (scaled.logsumexp(2) / lse).masked_fill(empty, 0.0)
