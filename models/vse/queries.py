"""Queries of VSE: image features and word ids."""

from functools import partial

from models.base.queries import word_embedder, word_queries
from models.vse.network import VSE

BESIDE = ("image_network",)

# of the model's files, its checkpoint and a device: something that can be searched with
queries = partial(word_queries, VSE)
# of the same: something that embeds lists of words
embedder = partial(word_embedder, VSE)
