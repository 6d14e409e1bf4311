"""One network of DP-RNN: encoders, recurrent visual embedding and one oriented similarity."""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from models.attention.cosines import without_padding
from models.attention.encoders import BiGRUEncoder, RegionEncoder
from models.dp_rnn.matching import MultiAttention, SelfAttention, pair_products
from models.dp_rnn.recurrent import (
    RecurrentVisualEmbedding,
    attended_order,
    content_codes,
    random_order,
)
from models.layers.linear import Divide, at_least_float32, undivided


class Side(NamedTuple):
    """Images or captions as a tower compares them."""

    vectors: Tensor  # (N, L, K) of objects or words, as the tower reads them
    lengths: Tensor  # (N,) how many of the L exist, on the vectors' device
    codes: Tensor  # (N,) int64, what a random order is drawn from


class PairScores(NamedTuple):
    """Scores (B, B), images in rows, 0 where not computed, and what was, (B, B) bool."""

    scores: Tensor
    computed: Tensor


class OrientedTower(nn.Module):
    """One oriented network. In the paper's form vectors are read as they are, but for the cosines
    of eq. 4, 6, 7 and 9; the other form reads unit vectors everywhere, as SCAN does.

    image_dim: D; vocabulary_size: V; dim: K; orientation: word or object; temperature, lse: of
    MultiAttention; beta_words: of eq. 10, for the order and early selection of either orientation;
    beta_objects: of eq. 11; raw: whether vectors are read as they are; recurrent: whether there is
    a recurrent embedding; random: whether its order is.
    """

    def __init__(
        self,
        image_dim: int,
        vocabulary_size: int,
        word_dim: int,
        dim: int,
        orientation: str,
        temperature: float,
        beta_words: float,
        beta_objects: float,
        raw: bool,
        lse: float | None,
        position_gate: bool,
        recurrent: bool,
        random: bool,
    ) -> None:
        super().__init__()
        self.random, self.raw = random, raw
        self.image = RegionEncoder(image_dim, dim, position_gate)
        self.text = BiGRUEncoder(vocabulary_size, word_dim, dim)
        beta = beta_words if orientation == "word" else beta_objects
        self.match = MultiAttention(dim, orientation, temperature, beta, raw, lse)
        # Eq. 14's word weights. The object-oriented similarity has none in it and an argmax and a
        # choice pass no gradient on: there they keep their start.
        by_object = orientation == "object"
        self.word_attention = SelfAttention(dim, beta_words, learns=False) if by_object else None
        self.recurrent = RecurrentVisualEmbedding(dim) if recurrent else None

    def embed_images(self, features: Tensor, positions: Tensor, counts: Tensor) -> Side:
        """Regions (B, R, D) at positions (B, R, 4), of which counts (B,) exist, as this tower
        compares them."""
        return self._side(self.image(features, positions), features, counts)

    def embed_captions(self, tokens: Tensor, lengths: Tensor) -> Side:
        """Padded word ids (B, T) with lengths (B,) on the CPU."""
        return self._side(self.text(tokens, lengths), tokens, lengths)

    def _side(self, vectors: Tensor, inputs: Tensor, lengths: Tensor) -> Side:
        vectors = self._as_read(at_least_float32(vectors))
        lengths = lengths.to(inputs.device)
        codes = content_codes(inputs, lengths) if self.random else torch.zeros_like(lengths)
        return Side(vectors, lengths, codes)

    def _as_read(self, vectors: Tensor) -> Tensor:
        """Vectors (..., K) as they are, or made unit vectors."""
        return vectors if self.raw else functional.normalize(vectors, dim=-1)

    def score(self, images: Side, captions: Side) -> Tensor:
        """Similarity (N, M) of all pairs, without recurrence."""
        with torch.autocast(images.vectors.device.type, enabled=False):
            return self.match(images.vectors, images.lengths, captions.vectors, captions.lengths)

    def image_sums(self, images: Side) -> Tensor:
        """Sum of an image's objects, (N, K): S_em (eq. 16) is its product with `caption_sums`."""
        return without_padding(images.vectors, images.lengths).sum(1)

    def caption_sums(self, captions: Side) -> Tensor:
        """Sum of a caption's words times their weights, (M, K)."""
        return self._relevant_words(captions).sum(1)

    def _relevant_words(self, captions: Side) -> Tensor:
        """a_j w_j (M, T, K), zero in the padding: P(i, j) (eq. 14) is its product with o_i."""
        return captions.vectors * self.word_weights(captions)[..., None]

    def word_weights(self, captions: Side) -> Tensor:
        """a_j (M, T), eq. 10, zero in the padding."""
        weigh = self.word_attention or self.match.attention
        return weigh(captions.vectors, captions.lengths)

    @torch.no_grad()
    def pair_shares(self, images: Side, captions: Side, recurrent: bool) -> Tensor:
        """What weighs the cosines of pairs, image b with caption b (eq. 10, 11; figure 4): (B, T)
        of words or (B, R) of the objects in their own order, after the recurrent embedding if
        `recurrent`; zero in the padding."""
        if self.match.by_words:
            return self.word_weights(captions)
        if not recurrent:
            return self.match.attention(images.vectors, images.lengths)
        selected = torch.arange(len(images.lengths), device=images.vectors.device)[:, None]
        order = self.order(images, captions, selected)
        shares = self.match.attention(self.reread(images, order, selected)[:, 0], images.lengths)
        return torch.zeros_like(shares).scatter(1, order[:, 0], shares)

    def score_selected(self, images: Side, captions: Side, selected: Tensor) -> Tensor:
        """Similarity with recurrence (M, S) of captions and images numbered `selected` (M, S)."""
        with torch.autocast(images.vectors.device.type, enabled=False):
            objects = self.reread(images, self.order(images, captions, selected), selected)
            counts = images.lengths[selected]
            return self.match.chosen(objects, counts, captions.vectors, captions.lengths)

    def reread(self, images: Side, order: Tensor, selected: Tensor) -> Tensor:
        """The objects (M, S, R, K) of images numbered `selected` (M, S) after the recurrent
        embedding (eq. 15), in the order they were read; order: (M, S, R) object numbers."""
        assert self.recurrent is not None
        pairs = selected.flatten(), order.flatten(0, 1)
        objects = self.recurrent(images.vectors, images.lengths, *pairs)
        return self._as_read(objects.unflatten(0, selected.shape))

    @torch.no_grad()
    def order(self, images: Side, captions: Side, selected: Tensor) -> Tensor:
        """The order (M, S, R) in which objects of images numbered `selected` (M, S) are read per
        caption."""
        counts = images.lengths[selected]
        if self.random:
            codes = images.codes[selected], captions.codes[:, None]
            return random_order(*codes, counts, images.vectors.shape[1])
        objects, words = images.vectors[selected], self._relevant_words(captions)
        relations = pair_products(objects, words, counts, captions.lengths)
        return attended_order(relations, counts, captions.lengths[:, None])

    def all_pairs(self, images: Side, captions: Side, divide: Divide = undivided) -> PairScores:
        """A batch's scores without recurrence: every pair is computed."""
        scores = divide(lambda *side: self.score(Side(*side), captions), *images)
        return PairScores(scores, torch.ones_like(scores, dtype=torch.bool))

    def selected_pairs(
        self,
        images: Side,
        captions: Side,
        groups: Tensor,
        candidates: int,
        divide: Divide = undivided,
    ) -> PairScores:
        """A batch's scores with recurrence, of true pairs and of candidates. groups: (B,) integers,
        equal where pairs are not each other's negatives; candidates: images per caption beside its
        own; divide: how the captions are shared."""
        with torch.no_grad(), torch.autocast(groups.device.type, enabled=False):
            early = self.image_sums(images) @ self.caption_sums(captions).T
            selected, valid = select_early(early, groups, candidates)
        chosen = divide(
            lambda rows, *side: self.score_selected(images, Side(*side), rows), selected, *captions
        ).masked_fill(~valid, 0.0)
        empty = chosen.new_zeros(early.shape)
        # added, not put: a column without enough candidates may name its own image twice
        scores = empty.scatter_add(0, selected.T, chosen.T)
        return PairScores(scores, empty.scatter_add(0, selected.T, valid.T.to(empty.dtype)) > 0)


def select_early(early: Tensor, groups: Tensor, candidates: int) -> tuple[Tensor, Tensor]:
    """For each caption the numbers (B, S) of its image, first, and the others of the largest early
    scores, none of its group; and which are valid (B, S). early: (B, B) S_em, images in rows;
    groups: (B,)."""
    images = torch.arange(len(groups), device=early.device)[:, None]
    others = early.masked_fill(groups[:, None] == groups[None, :], -torch.inf).T
    best = others.topk(min(candidates, len(groups) - 1), dim=1)
    valid = torch.cat([torch.ones_like(images, dtype=torch.bool), best.values > -torch.inf], dim=1)
    return torch.cat([images, best.indices], dim=1), valid
