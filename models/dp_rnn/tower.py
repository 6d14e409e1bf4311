"""One of DP-RNN's two networks: encoders, the recurrent visual embedding and one oriented
similarity (Chen and Luo 2020).

In the paper's form vectors are read as they are, but for the cosines of eq. 4, 6, 7 and 9; the
other form reads unit vectors everywhere, as SCAN does. Images and captions are embedded once
(`Side`) and then compared: all pairs without recurrence, or chosen pairs with it.
"""

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import normalize

from models.attention.cosines import without_padding
from models.attention.encoders import BiGRUEncoder, RegionEncoder
from models.dp_rnn.matching import MultiAttention, SelfAttention, pair_products, pair_weights
from models.dp_rnn.recurrent import (
    RecurrentVisualEmbedding,
    attended_order,
    content_codes,
    random_order,
)
from models.layers.linear import at_least_float32
from pipeline.features.split import Regions, Words


class Side(NamedTuple):
    """Images or captions as one network compares them."""

    vectors: Tensor  # (B, L, K) objects or words, at least float32
    lengths: Tensor  # (B,) how many exist, on the vectors' device
    sums: Tensor  # (B, K) of objects, or of words times their weights; without gradients. Products
    # of both sides' are the early score S_em (eq. 16).
    codes: Tensor  # (B,) int64, what a random order follows from; zeros without one


class OrientedTower(nn.Module):
    """One network.

    Args:
        image_dim: D of a region's features.
        vocabulary_size: V; word 0 is padding.
        word_dim: Width of a word embedding.
        dim: K.
        orientation: word or object.
        temperature: Of the oriented similarity, inverse.
        beta_words: Of eq. 10; read by either orientation, for the order and the early selection.
        beta_objects: Of eq. 11; read by the object-oriented similarity.
        raw: Whether vectors are read as they are; else all are made unit vectors.
        lse: Lambda of SCAN's LogSumExp in place of eq. 12; None for eq. 12.
        position_gate: Whether the region encoder has one.
        recurrent: Whether there is a recurrent visual embedding.
        random: Whether its order is random.
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
        is_word = orientation == "word"
        self.random = random
        self.image = RegionEncoder(image_dim, dim, position_gate)
        self.text = BiGRUEncoder(vocabulary_size, word_dim, dim)
        self.match = MultiAttention(
            dim=dim,
            orientation=orientation,
            temperature=temperature,
            beta=beta_words if is_word else beta_objects,
            raw=raw,
            lse=lse,
        )
        # Eq. 14's word weights. The object-oriented similarity has none in it, and neither an
        # argmax nor a choice passes a gradient on: there they keep their start.
        self.word_attention = None if is_word else SelfAttention(dim, beta_words, learns=False)
        self.recurrent = RecurrentVisualEmbedding(dim) if recurrent else None

    # ---- embedding

    def embed_images(self, images: Regions) -> Side:
        """Regions (B, R, D) as this network compares them."""
        vectors = self.as_read(self.image(images.features, images.positions))
        counts = images.counts.to(vectors.device)
        with torch.no_grad():
            sums = without_padding(vectors, counts).sum(1)
        return Side(vectors, counts, sums, self.codes(images.features, counts))

    def embed_captions(self, captions: Words) -> Side:
        """Words (B, T) as this network compares them."""
        vectors = self.as_read(self.text(captions.ids, captions.lengths))
        lengths = captions.lengths.to(vectors.device)
        with torch.no_grad(), torch.autocast(vectors.device.type, enabled=False):
            sums = self.relevant_words(vectors, lengths).sum(1)
        return Side(vectors, lengths, sums, self.codes(captions.ids, lengths))

    def as_read(self, vectors: Tensor) -> Tensor:
        """Vectors (..., K) as they are, or made unit vectors; at least float32."""
        vectors = at_least_float32(vectors)
        return vectors if self.match.raw else normalize(vectors, dim=-1)

    def codes(self, inputs: Tensor, lengths: Tensor) -> Tensor:
        """What a random order follows from.

        Args:
            inputs: (B, L, ...) what is embedded.
            lengths: (B,) how many of the L exist.

        Returns:
            (B,) int64; zeros where the order is not random.
        """
        return content_codes(inputs, lengths) if self.random else torch.zeros_like(lengths)

    def word_weights(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """a_j of eq. 10.

        Args:
            vectors: Words (M, T, K).
            lengths: (M,) how many exist.

        Returns:
            (M, T), zero in the padding.
        """
        attention = self.match.attention if self.word_attention is None else self.word_attention
        weights: Tensor = attention(vectors, lengths)
        return weights

    def relevant_words(self, vectors: Tensor, lengths: Tensor) -> Tensor:
        """a_j w_j, whose product with an object o_i is P(i, j) of eq. 14.

        Args:
            vectors: Words w_j (M, T, K).
            lengths: (M,) how many exist.

        Returns:
            (M, T, K), zero in the padding.
        """
        return vectors * self.word_weights(vectors, lengths)[..., None]

    # ---- scores

    def early_scores(self, images: Side, captions: Side) -> Tensor:
        """S_em (eq. 16), which selects the pairs that are scored with recurrence.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M), without gradients.
        """
        with torch.autocast(images.sums.device.type, enabled=False):
            return images.sums @ captions.sums.T

    def score(self, images: Side, captions: Side) -> Tensor:
        """Similarities of all pairs, without recurrence.

        Args:
            images: N images.
            captions: M captions.

        Returns:
            (N, M).
        """
        with torch.autocast(images.vectors.device.type, enabled=False):
            scores: Tensor = self.match(
                images.vectors, images.lengths, captions.vectors, captions.lengths
            )
        return scores

    def score_selected(self, images: Side, captions: Side, selected: Tensor) -> Tensor:
        """Similarities with recurrence, of S images for each caption.

        Args:
            images: N images.
            captions: M captions.
            selected: (M, S) numbers of images.

        Returns:
            (M, S).
        """
        with torch.autocast(images.vectors.device.type, enabled=False):
            order = self.order(images, captions, selected)
            objects = self.read_in_order(images, order, selected)
            counts = images.lengths[selected]
            return self.match.chosen(objects, counts, captions.vectors, captions.lengths)

    def read_in_order(self, images: Side, order: Tensor, selected: Tensor) -> Tensor:
        """Objects after the recurrent visual embedding (eq. 15), in the order they are read.

        Args:
            images: N images.
            order: (M, S, R) numbers of objects.
            selected: (M, S) numbers of images.

        Returns:
            (M, S, R, K).
        """
        assert self.recurrent is not None
        objects = self.recurrent(
            objects=images.vectors,
            counts=images.lengths,
            images=selected.flatten(),
            order=order.flatten(0, 1),
        )
        return self.as_read(objects.unflatten(0, selected.shape))

    @torch.no_grad()
    def order(self, images: Side, captions: Side, selected: Tensor) -> Tensor:
        """In which order a caption's words make an image's objects be read.

        Args:
            images: N images.
            captions: M captions.
            selected: (M, S) numbers of images.

        Returns:
            Numbers of objects (M, S, R); those that do not exist come last.
        """
        counts = images.lengths[selected]
        if self.random:
            codes = images.codes[selected]
            return random_order(codes, captions.codes[:, None], counts, images.vectors.shape[1])
        words = self.relevant_words(captions.vectors, captions.lengths)
        relations = pair_products(images.vectors[selected], words, counts, captions.lengths)
        return attended_order(relations, counts, captions.lengths[:, None])

    # ---- what is shown

    @torch.no_grad()
    def compute_pair_weights(self, images: Side, captions: Side, has_recurrence: bool) -> Tensor:
        """What weighs the cosines of pairs (eq. 10, 11; figure 4).

        Args:
            images: B images.
            captions: B captions, each of the image in its row.
            has_recurrence: Whether the objects are those after the recurrent visual embedding.

        Returns:
            Of the word-oriented network (B, T) of words, else (B, R) of objects in their own order;
            zero in the padding.
        """
        if self.match.by_words:
            return self.word_weights(captions.vectors, captions.lengths)
        attention = self.match.attention
        if not has_recurrence:
            weights: Tensor = attention(images.vectors, images.lengths)
            return weights
        selected = torch.arange(len(images.lengths), device=images.vectors.device)[:, None]
        order = self.order(images, captions, selected)
        objects = self.read_in_order(images, order, selected)[:, 0]
        weights = attention(objects, images.lengths)
        return torch.zeros_like(weights).scatter(1, order[:, 0], weights)

    @torch.no_grad()
    def compute_attention(self, image: Side, caption: Side, order: Tensor | None) -> Tensor:
        """Attention of words to objects, or of objects to words (eq. 5, 8; figure 3).

        Args:
            image: One image of R objects.
            caption: One caption of T words.
            order: (R,) as the objects are read; None without recurrence.

        Returns:
            (T, R), the objects in the image's own order.
        """
        objects = image.vectors
        if order is not None:
            first = torch.zeros(1, 1, dtype=torch.int64, device=objects.device)
            objects = self.read_in_order(image, order[None, None], first)[:, 0]
        cosines = pair_products(
            normalize(objects, dim=-1)[:, None],
            normalize(caption.vectors, dim=-1),
            image.lengths[:, None],
            caption.lengths,
        )[0, 0]
        if self.match.by_words:
            weights = pair_weights(cosines.T, image.lengths[0], self.match.temperature)
        else:
            weights = pair_weights(cosines, caption.lengths[0], self.match.temperature).T
        return weights if order is None else torch.zeros_like(weights).index_copy(1, order, weights)
