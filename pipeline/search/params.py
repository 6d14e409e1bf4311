"""Section of params.yaml: what finds the nearest of many vectors."""

from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import Field
from pydantic_core import InitErrorDetails

from pipeline.runtime.section import Count, Section, cross_check, wrong_value


class HNSWConfig(Section):
    """Hierarchical navigable small world graph (Malkov and Yashunin 2020), in faiss's words."""

    m: Annotated[int, Field(ge=2, le=512)] = 16
    ef_construction: Count = 100
    ef_search: Count = 128


class IVFPQConfig(Section):
    """Inverted lists of product-quantised residuals (Jegou et al. 2011)."""

    lists: Count | None = None
    probes: Count = 16
    code_bytes: Count = 64


class SearchConfig(Section):
    """How stored embeddings are searched, and for which models an index is built."""

    index: Literal["flat", "hnsw", "ivf_pq"] = "flat"
    models: list[str] = Field(default=[])
    hnsw: HNSWConfig = HNSWConfig()
    ivf_pq: IVFPQConfig = IVFPQConfig()

    @property
    def parameters(self) -> HNSWConfig | IVFPQConfig:
        """Those of the chosen kind of index; not of flat, which has none."""
        return self.hnsw if self.index == "hnsw" else self.ivf_pq

    @cross_check
    def _models_are_those_of_an_index(self) -> Iterator[InitErrorDetails]:
        if self.index == "flat" and self.models:
            yield wrong_value(
                "models",
                self.models,
                "must be [] when search.index is 'flat': exact search needs no index",
            )
        if self.index != "flat" and not self.models:
            yield wrong_value(
                "models",
                self.models,
                f"name the models to index, when search.index is {self.index!r}",
            )
