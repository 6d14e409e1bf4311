"""Queries of VSE-infinity: regions and word ids."""

from functools import partial

from models.base.queries import found_regions, word_embedder, word_queries
from models.vse_infinity.network import VSEInfinity
from pipeline.inputs.regions import RegionInputs

BESIDE = ("detector",)

queries = partial(word_queries, VSEInfinity, opened=RegionInputs, image=found_regions)
embedder = partial(word_embedder, VSEInfinity, opened=RegionInputs)
