"""A row that has nothing to say; the formula of the embeddings is held in test_model.py."""

import numpy as np
import torch

from models.cca import CCA, CCAConfig


def test_a_row_equal_to_the_mean_is_zero_and_not_nan():
    rng = np.random.default_rng(0)
    shapes = ((7,), (7, 3), (5,), (5, 3))
    parts = [torch.from_numpy(rng.standard_normal(shape).astype(np.float32)) for shape in shapes]
    model = CCA(CCAConfig(dim=3), image_dim=7, sentence_dim=5)
    model.load_state_dict(dict(zip(model.state_dict(), parts, strict=True)))
    images = torch.stack([parts[0], parts[0] + 1])
    embedded = model.index(model.embed_images(images))
    assert not embedded[0].any()
    torch.testing.assert_close(embedded[1].norm(), torch.ones(()))
    scores = model.score(model.embed_images(images), model.embed_captions(parts[2][None]))
    assert torch.isfinite(scores).all()
