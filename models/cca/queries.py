"""Queries of canonical correlation analysis: image features and sentence vectors."""

from functools import partial

from models.base.queries import sentence_queries
from models.cca.network import CCA

BESIDE = ("encoder", "image_network")

queries = partial(sentence_queries, CCA)
