"""What DP-RNN attended to in one image and one caption: figures 3 and 4 of Chen and Luo 2020."""

from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import normalize

from models.attention.reader import AttentionView, open_reader
from models.dp_rnn.matching import pair_products, pair_weights
from models.dp_rnn.network import DPRNN
from models.dp_rnn.tower import OrientedTower, Side


@torch.no_grad()
def view(model: DPRNN, regions: Sequence[Tensor], caption: Sequence[Tensor]) -> AttentionView:
    """The view of one image and one caption, batches of one as in DPRNN.forward: features (1, R,
    D), positions (1, R, 4) and counts (1,); tokens (1, T) and lengths (1,).

    The score is that of all towers. Word weights (eq. 10) are the word-oriented tower's, region
    weights (eq. 11) the object-oriented one's, after recurrence. Attention (eq. 8) and order are of
    the word-oriented tower, where there is one.
    """
    images, captions = model.embed_images(*regions), model.embed_captions(*caption)
    tower = model.networks()[0]  # both: the word-oriented one is the first
    objects, words, order = images[0], captions[0], None
    if model.use_recurrence:
        pair = torch.zeros(1, 1, dtype=torch.int64, device=objects.vectors.device)
        score = model.score_selected(images, captions, pair)
        order = tower.order(objects, words, pair)[0, 0]
    else:
        score = model.score(images, captions)
    length, count = int(caption[1][0]), int(regions[2][0])
    towers = zip(model.towers, model.networks(), images, captions, strict=True)
    shares = {
        name: network.pair_shares(left, right, model.use_recurrence)[0]
        for name, network, left, right in towers
        if network.match.weighs
    }
    return AttentionView(
        score.item(),
        _weights(tower, objects, words, order)[:length, :count],
        shares["word"][:length] if "word" in shares else None,
        shares["object"][:count] if "object" in shares else None,
        None if order is None else order[:count],
    )


def _weights(tower: OrientedTower, image: Side, caption: Side, order: Tensor | None) -> Tensor:
    """Weights (T, R) of the objects in the image's own order; order: (R,) as they are read."""
    objects = image.vectors
    if order is not None:
        first = torch.zeros(1, 1, dtype=torch.int64, device=objects.device)
        objects = tower.reread(image, order[None, None], first)[:, 0]
    vectors = normalize(objects, dim=-1)[:, None], normalize(caption.vectors, dim=-1)
    cosines = pair_products(*vectors, image.lengths[:, None], caption.lengths)[0, 0]
    temperature = tower.match.temperature
    if tower.match.by_words:
        weights = pair_weights(cosines.T, image.lengths[0], temperature)
    else:
        weights = pair_weights(cosines, caption.lengths[0], temperature).T
    return weights if order is None else torch.zeros_like(weights).index_copy(1, order, weights)


attention = partial(open_reader, DPRNN, view)
