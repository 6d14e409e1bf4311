"""DP-RNN (Chen and Luo 2020): captions and images both read by recurrent networks, matched word by
object. Two networks with weights of their own, held together because their scores are averaged."""

import torch
from torch import Tensor, nn

from models.dp_rnn.tower import OrientedTower, PairScores, Side
from models.layers.linear import Divide, undivided

TOWERS = {"both": ("word", "object"), "word": ("word",), "object": ("object",)}
Sides = list[Side]  # one per tower


class DPRNN(nn.Module):
    """Dual-path recurrent matching of regions and words (Chen and Luo 2020). Both networks start
    from the same state of the random generator: each from the weights that it would have alone."""

    def __init__(
        self,
        image_dim: int,  # D of a region's features
        vocabulary_size: int,  # V
        word_dim: int,  # width of a word embedding
        dim: int,  # K
        orientation: str = "both",  # both, word or object
        matching: str = "multi_attention",  # or scan: words and objects have no weights
        vectors: str = "raw",  # raw, the paper's form, or unit (models.dp_rnn.tower.OrientedTower)
        pooling: str = "mean",  # of scan's cosines, mean, lse (LogSumExp), or a network each
        lse: float = 6.0,  # lambda_2 of LogSumExp (6; objects 5 or 20), not read by mean
        recurrent: bool = True,  # whether there is a recurrent visual embedding
        order: str = "attended",  # attended, or random (table 1)
        temperature_objects: float = 9.0,  # lambda_1 of eq. 5
        temperature_words: float = 4.0,  # lambda_2 of eq. 8
        beta_words: float = 0.3,  # of eq. 10
        beta_objects: float = 0.3,  # of eq. 11
        candidates: int = 10,  # d, wrong images per caption that train with recurrence
        position_gate: bool = True,  # as in RegionEncoder
    ) -> None:
        super().__init__()
        self.candidates = candidates
        sizes = (image_dim, vocabulary_size, word_dim, dim)
        temperatures = {"word": temperature_words, "object": temperature_objects}
        betas = (0.0, 0.0) if matching == "scan" else (beta_words, beta_objects)
        # mean_lse: SCAN's t-i AVG and i-t LSE; their average is the reference of table 1
        by_lse = {"mean": (), "lse": TOWERS["both"], "mean_lse": ("object",)}[pooling]
        kinds = position_gate, recurrent, order == "random"
        state = torch.get_rng_state()
        self.towers = nn.ModuleDict()
        for name in TOWERS[orientation]:
            torch.set_rng_state(state)
            forms = vectors == "raw", lse if name in by_lse else None
            self.towers[name] = OrientedTower(
                *sizes, name, temperatures[name], *betas, *forms, *kinds
            )
        self.recurrence: Tensor  # a buffer: weights are scored the way they were trained
        self.register_buffer("recurrence", torch.zeros((), dtype=torch.uint8))

    @property
    def use_recurrence(self) -> bool:
        """Whether scores are those with the recurrent visual embedding; saved with the weights."""
        return bool(self.recurrence.item())

    def enter_phase(self, phase: str) -> None:
        """Set what learns: matching: all but the recurrent embedding, which is not used; recurrent:
        the recurrent embedding alone; all: everything."""
        self.recurrence.fill_(phase != "matching")
        self.requires_grad_(phase != "recurrent")
        for tower in self.networks():
            if tower.recurrent is not None:
                tower.recurrent.requires_grad_(phase != "matching")

    def embed_images(self, features: Tensor, positions: Tensor, counts: Tensor) -> Sides:
        """Regions (B, R, D), of which counts (B,) exist, as each tower compares them. positions:
        (B, R, 4) width, height, centre x, centre y as shares of the image."""
        return [tower.embed_images(features, positions, counts) for tower in self.networks()]

    def embed_captions(self, tokens: Tensor, lengths: Tensor) -> Sides:
        """Padded word ids (B, T) with lengths (B,) on the CPU, per tower."""
        return [tower.embed_captions(tokens, lengths) for tower in self.networks()]

    def image_vectors(self, images: Sides) -> Tensor:
        """(N, towers x K), whose products with `caption_vectors` are the towers' S_em together."""
        towers = zip(self.networks(), images, strict=True)
        return torch.cat([tower.image_sums(side) for tower, side in towers], dim=1)

    def caption_vectors(self, captions: Sides) -> Tensor:
        """(M, towers x K)."""
        towers = zip(self.networks(), captions, strict=True)
        return torch.cat([tower.caption_sums(side) for tower, side in towers], dim=1)

    def score(self, images: Sides, captions: Sides) -> Tensor:
        """Similarity (N, M) without recurrence, the mean of the towers."""
        towers = zip(self.networks(), images, captions, strict=True)
        return torch.stack([tower.score(left, right) for tower, left, right in towers]).mean(0)

    def score_selected(self, images: Sides, captions: Sides, selected: Tensor) -> Tensor:
        """Similarity with recurrence (M, S) of captions and images numbered `selected` (M, S), the
        mean of the towers."""
        towers = zip(self.networks(), images, captions, strict=True)
        scores = [tower.score_selected(left, right, selected) for tower, left, right in towers]
        return torch.stack(scores).mean(0)

    def forward(
        self,
        features: Tensor,
        positions: Tensor,
        counts: Tensor,
        tokens: Tensor,
        lengths: Tensor,
        groups: Tensor,
        divide: Divide = undivided,
    ) -> list[PairScores]:
        """Scores of a batch of pairs, of each tower by itself, as each has a loss of its own.

        features: (B, R, D), positions: (B, R, 4), counts: (B,) as in `embed_images`; tokens: (B, T)
        word ids, padded at the end; lengths: (B,) on the CPU; groups: (B,) integers, equal where
        pairs are not each other's negatives; divide: how rows are shared.
        """
        images = divide(self.embed_images, features, positions, counts)
        captions = divide(self.embed_captions, tokens, lengths)
        towers = zip(self.networks(), images, captions, strict=True)
        if not self.use_recurrence:
            return [tower.all_pairs(left, right, divide) for tower, left, right in towers]
        chosen = groups, self.candidates, divide
        return [tower.selected_pairs(left, right, *chosen) for tower, left, right in towers]

    def networks(self) -> list[OrientedTower]:
        """The towers: word before object."""
        return [tower for tower in self.towers.values() if isinstance(tower, OrientedTower)]
