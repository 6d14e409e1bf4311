"""An image that is the mean of all has no direction; test_model.py holds the formula of the
embeddings."""

import torch

from models.cca import CCA, CCAConfig


def test_an_image_equal_to_the_mean_is_zero_and_not_nan():
    torch.manual_seed(0)
    network = CCA(CCAConfig(dim=3), image_dim=7, sentence_dim=5)
    weights = {name: torch.randn(value.shape) for name, value in network.state_dict().items()}
    network.load_state_dict(weights)
    image_mean = weights["image_mean"]
    images = network.embed_images(torch.stack([image_mean, image_mean + 1]))
    vectors = network.index(images)
    assert not vectors[0].any()
    torch.testing.assert_close(vectors[1].norm(), torch.ones(()))
    captions = network.embed_captions(weights["sentence_mean"][None] + 1)
    scores = network.score(images, captions)
    assert scores[0] == 0
    assert 0 < scores[1].abs() <= 1
