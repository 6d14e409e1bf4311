"""All folders whose files register themselves, and which of their entries a params.yaml chooses."""

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import NamedTuple

from models.backbone.networks import NETWORKS
from models.backbone.poolings import POOLINGS
from models.base.registry import check_models
from models.phrases.models import PHRASE_MODELS
from models.ranking import LOSSES
from pipeline.dataset import POSITIVES, READERS
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.metrics import FILES as METRIC_FILES
from pipeline.runtime.registry import Registry
from pipeline.sentences.encodings import ENCODINGS
from stages.params import CommonParams

Chosen = Iterable[str]  # names; those that are no entry, such as `none` or resnet18, are left out


def _losses(params: CommonParams) -> Chosen:
    return params.loss, "sum_margin"  # the warm-up of losses that may collapse


def _readers(params: CommonParams) -> Chosen:
    return READERS if params.dataset == "auto" else [params.dataset]


def _networks(params: CommonParams) -> Chosen:
    sections = params.image_features, params.regions.network, params.phrases.features.network
    return [section.model for section in sections]


def _criteria(params: CommonParams) -> Chosen:
    return "naive", *params.inference.criteria


def _poolings(params: CommonParams) -> Chosen:
    # mean: of grids of cells, and of a network whose fc7 describes boxes
    return "mean", params.image_features.pool, params.phrases.features.network.pool


class Use(NamedTuple):
    """How a stage uses a registry.

    A stage that cannot load the file `through` uses no entry. `key` is the section of params.yaml
    that chooses, None where the choice does not depend on the sections that a stage reads.
    """

    through: str
    key: str | None
    chosen: Callable[[CommonParams], Chosen]


# Entries of PHRASE_MODELS are items of a stage, and no choice of params.yaml.
REGISTRIES: dict[Registry, Use | None] = {
    LOSSES: Use("models/ranking/__init__.py", "loss", _losses),
    READERS: Use("pipeline/dataset/__init__.py", "dataset", _readers),
    POSITIVES: Use("pipeline/dataset/__init__.py", "dataset", lambda p: [p.corpus.positives]),
    ENCODINGS: Use(
        "pipeline/sentences/encodings/__init__.py", None, lambda p: [p.sentences.encoding]
    ),
    NETWORKS: Use("models/backbone/networks/__init__.py", None, _networks),
    POOLINGS: Use("models/backbone/poolings/__init__.py", None, _poolings),
    CRITERIA: Use("pipeline/evaluation/criteria/__init__.py", "inference", _criteria),
    METRIC_FILES: Use("pipeline/evaluation/columns.py", None, lambda p: METRIC_FILES),
    PHRASE_MODELS: None,
}


def chosen_modules(
    files: Collection[str], keys: Collection[str], params: CommonParams
) -> Iterator[str]:
    """The modules that a stage may load of the registries it uses.

    `files` are what the stage may load besides, `keys` the sections of params.yaml that it reads.
    """
    for registry, use in REGISTRIES.items():
        if use and use.through in files and (use.key is None or use.key in keys):
            yield from (registry.module(name) for name in use.chosen(params) if name in registry)


def check_registries() -> None:
    """Raise WorkbenchError for a file that does not offer what its place promises; imports none."""
    for registry in REGISTRIES:
        registry.entries()
    check_models()
