"""DP-RNN's similarity from its equations, the slow way, and modules to hold it against."""

import torch

from models.dp_rnn.matching import MultiAttention


def attended(queries, contexts, temperature, seen=None):
    """Of unit queries (Q, K) and contexts (C, K) without padding: cosines (Q,) with what each query
    attends to, and weights (Q, C), one vector at a time (Chen and Luo 2020, eq. 4-6).

    seen: the contexts that are weighted, where they are others than those compared.
    """
    cosines = torch.stack([torch.stack([q @ c for c in contexts]) for q in queries]).clamp_min(0)
    norms = cosines.square().sum(0).clamp_min(1e-16).sqrt()
    weights = torch.softmax(temperature * cosines / norms, 1)
    seen = contexts if seen is None else seen
    found = [sum(a * c for a, c in zip(row, seen, strict=True)) for row in weights]
    result = [q @ t / t.norm().clamp_min(1e-7) for q, t in zip(queries, found, strict=True)]
    return torch.stack(result), weights


def slow_similarity(objects, words, orientation, temperature, direction, beta):
    """Eq. 4 to 12 for one image (k, K) and one caption (n, K) without padding, as they are given:
    of unit vectors it is the other form."""
    queries, contexts = (words, objects) if orientation == "word" else (objects, words)
    cosines, _ = attended(unit(queries), unit(contexts), temperature, contexts)
    shares = torch.stack([torch.exp(beta * (direction @ query)) for query in queries])
    return (shares / shares.sum() * cosines).sum()


def unit(vectors):
    return torch.nn.functional.normalize(vectors, dim=-1)


def case(orientation, dtype, beta=0.3, **options):
    torch.manual_seed(1)
    module = MultiAttention(6, orientation, 5.0, beta, **options).to(dtype)
    if beta:
        torch.nn.init.normal_(module.attention.direction, std=3.0)
    words = torch.randn(3, 4, 6, dtype=dtype).requires_grad_()
    return module, words, torch.tensor([4, 2, 1])


def direction_of(module):
    found = module.attention.direction
    return torch.zeros(6, dtype=torch.float64) if found is None else found
