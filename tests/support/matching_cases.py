"""DP-RNN's similarity from its equations, the slow way, and modules to hold it against."""

import torch

from models.dp_rnn.matching import MultiAttention


def slow_similarity(objects, words, orientation, temperature, direction, beta):
    """Eq. 4 to 12 for one image (k, K) and one caption (n, K) without padding, as they are given:
    of unit vectors it is the other form."""
    queries, contexts = (words, objects) if orientation == "word" else (objects, words)
    positive = [[max(cosine(q, c), 0.0 * q[0]) for c in contexts] for q in queries]
    total = 0.0
    shares = [torch.exp(beta * (direction @ q)) for q in queries]
    for q, query in enumerate(queries):
        logits = []
        for c in range(len(contexts)):
            norm = sum(positive[other][c] ** 2 for other in range(len(queries)))
            norm = norm.sqrt() if norm > 0 else norm + 1.0
            logits.append(torch.exp(temperature * positive[q][c] / norm))
        attended = sum(
            e / sum(logits) * context for e, context in zip(logits, contexts, strict=True)
        )
        total = total + shares[q] / sum(shares) * cosine(query, attended)
    return total


def cosine(left, right):
    return left @ right / (left.norm() * right.norm())


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
