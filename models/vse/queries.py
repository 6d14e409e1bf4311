"""Queries of VSE: image features and word ids."""

from functools import partial

from models.base.queries import word_embedder, word_queries
from models.vse.network import VSE

BESIDE = ("image_network",)

queries = partial(word_queries, VSE)
embedder = partial(word_embedder, VSE)
