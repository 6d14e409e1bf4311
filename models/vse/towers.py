"""VSE's two sides as modules without packed sequences, which cannot be traced."""

import torch
from torch import Tensor, nn

from models.base.towers import ImageTower, Tower
from models.layers.linear import unit_rows
from models.layers.sets import GPO
from models.vse.network import VSE
from pipeline.runtime.errors import WorkbenchError
from pipeline.storage.checkpoint import Checkpoint


class PaddedCaptions(nn.Module):
    """`VSE.embed_captions` over padded rows: the network reads forwards, so that padding changes no
    state before it; states behind a caption's end are left out."""

    def __init__(self, network: VSE) -> None:
        super().__init__()
        self.network = network

    def forward(self, tokens: Tensor, lengths: Tensor) -> Tensor:
        """Padded word ids (B, T) with lengths (B,) to unit rows (B, K)."""
        text = self.network.text
        states, _ = text.recurrent(text.words(tokens))
        if text.pool is None:
            last = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
            pooled = states.gather(1, last)[:, 0]
        else:
            pooled = text.pool(states, lengths)
        return unit_rows(self.network.text_projection(pooled))


def towers(checkpoint: Checkpoint) -> dict[str, Tower]:
    """Both sides: image features (B, D), and word ids (B, T) with lengths (B,)."""
    network = checkpoint.build(VSE)
    if isinstance(network.text.pool, GPO):
        raise WorkbenchError(
            "vse.text_pool = gpo: its sorting cannot be written as ONNX", "export without --onnx"
        )
    width, words = network.image_projection.in_features, network.text.words.num_embeddings
    tokens = torch.ones((2, 3), dtype=torch.int64)
    return {
        "image": Tower(ImageTower(network), {"images": torch.zeros(2, width)}),
        "caption": Tower(
            PaddedCaptions(network),
            {"tokens": tokens, "lengths": torch.tensor([3, 2])},
            words=("tokens",),
            lengths=("lengths",),
            largest={"tokens": words},
        ),
    }
