"""What DP-RNN attended to in one image and one caption: figures 3 and 4 of Chen and Luo 2020."""

import torch
from torch.nn.functional import normalize

from models.attention.view import AttentionView
from models.dp_rnn.matching import pair_products, pair_weights
from models.dp_rnn.network import DPRNN
from models.dp_rnn.tower import Side, Tower


@torch.no_grad()
def dp_rnn_view(
    model: DPRNN,
    features: torch.Tensor,
    positions: torch.Tensor,
    counts: torch.Tensor,
    tokens: torch.Tensor,
    lengths: torch.Tensor,
) -> AttentionView:
    """The view of one image and one caption.

    The score is that of all towers; the rest is the word-oriented tower's, where there is one: word
    weights (eq. 10), word-to-object attention after recurrence (eq. 8), order of the objects.

    Args:
        model: on the device of the features, positions and tokens.
        features: (1, R, D).
        positions: (1, R, 4) width, height, centre x, centre y as shares of the image.
        counts: (1,) regions, on the CPU.
        tokens: (1, T) word ids.
        lengths: (1,) words, on the CPU.
    """
    images = model.embed_images(features, positions, counts)
    captions = model.embed_captions(tokens, lengths)
    tower = next(iter(model.towers.values()))  # both: the word-oriented one is the first
    assert isinstance(tower, Tower)
    image, caption, order = images[0], captions[0], None
    if model.use_recurrence:
        pair = torch.zeros(1, 1, dtype=torch.int64, device=features.device)
        score = model.score_selected(images, captions, pair)
        order = tower.order(image, caption, pair)[0, 0]
    else:
        score = model.score(images, captions)
    weights = _weights(tower, image, caption, order)[: int(lengths[0]), : int(counts[0])]
    shares = None
    if tower.match.by_words and tower.match.attention.direction is not None:
        shares = tower.match.attention(caption.vectors, caption.lengths)[0, : int(lengths[0])]
    return AttentionView(
        score.item(), weights, shares, None if order is None else order[: int(counts[0])]
    )


def _weights(tower: Tower, image: Side, caption: Side, order: torch.Tensor | None) -> torch.Tensor:
    """(T, R) weights of the objects in the image's own order; order: (R,) as they are read."""
    objects = image.vectors
    if order is not None:
        assert tower.recurrent is not None
        first = torch.zeros(1, dtype=torch.int64, device=objects.device)
        objects = normalize(tower.recurrent(objects, image.lengths, first, order[None]), dim=-1)
    sides = objects[:, None], caption.vectors, image.lengths[:, None], caption.lengths
    cosines = pair_products(*sides)[0, 0]
    temperature = tower.match.temperature
    if tower.match.by_words:
        weights = pair_weights(cosines.T, image.lengths[0], temperature)
    else:
        weights = pair_weights(cosines, caption.lengths[0], temperature).T
    return weights if order is None else torch.zeros_like(weights).index_copy(1, order, weights)
