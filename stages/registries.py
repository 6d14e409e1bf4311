"""All folders whose files register themselves, and which of their entries a params.yaml chooses."""

from collections.abc import Callable, Iterable

from models.backbone.networks import NETWORKS
from models.backbone.poolings import POOLINGS
from models.base.registry import check_models
from models.phrases.models import PHRASE_MODELS
from models.ranking import LOSSES
from pipeline.dataset import POSITIVES, READERS
from pipeline.evaluation import METRIC_FILES
from pipeline.evaluation.criteria import CRITERIA
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


def _poolings(params: CommonParams) -> Chosen:
    # mean: of grids of cells, and of a network whose fc7 describes boxes
    return "mean", params.image_features.pool, params.phrases.features.network.pool


REGISTRIES: dict[Registry, Callable[[CommonParams], Chosen]] = {
    LOSSES: _losses,
    READERS: _readers,
    POSITIVES: lambda params: [params.corpus.positives],
    ENCODINGS: lambda params: [params.sentences.encoding],
    NETWORKS: _networks,
    POOLINGS: _poolings,
    CRITERIA: lambda params: ["naive", *params.inference.criteria],
    METRIC_FILES: lambda params: METRIC_FILES,
    PHRASE_MODELS: lambda params: PHRASE_MODELS,
}


def chosen_modules(params: CommonParams) -> dict[str, list[str]]:
    """The modules that a run may load of every registry, by the registry's package.

    params: what chooses. Of PHRASE_MODELS all are named: a stage loads the one of its item.
    """
    return {
        registry.package: [
            registry.module(name) for name in dict.fromkeys(choose(params)) if name in registry
        ]
        for registry, choose in REGISTRIES.items()
    }


def check_registries() -> None:
    """Raise WorkbenchError for a file that claims a name and does not offer what it must.

    All files are read and none is imported.
    """
    for registry in REGISTRIES:
        registry.entries()
    check_models()
