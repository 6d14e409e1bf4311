"""All folders whose files register themselves, and which of their entries a params.yaml chooses."""

from collections.abc import Callable, Collection, Iterable, Iterator

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


def _poolings(params: CommonParams) -> Chosen:
    # mean: of grids of cells, and of a network whose fc7 describes boxes
    return "mean", params.image_features.pool, params.phrases.features.network.pool


# By registry: the file through which a stage uses it, and which of its entries it may load. Entries
# of PHRASE_MODELS are items of a stage.
REGISTRIES: dict[Registry, tuple[str, Callable[[CommonParams], Chosen]]] = {
    LOSSES: ("models/ranking/__init__.py", _losses),
    READERS: ("pipeline/dataset/__init__.py", _readers),
    POSITIVES: ("pipeline/dataset/__init__.py", lambda params: [params.corpus.positives]),
    ENCODINGS: (
        "pipeline/sentences/encodings/__init__.py",
        lambda params: [params.sentences.encoding],
    ),
    NETWORKS: ("models/backbone/networks/__init__.py", _networks),
    POOLINGS: ("models/backbone/poolings/__init__.py", _poolings),
    CRITERIA: (
        "pipeline/evaluation/criteria/__init__.py",
        lambda params: ["naive", *params.inference.criteria],
    ),
    METRIC_FILES: ("pipeline/evaluation/columns.py", lambda params: METRIC_FILES),
    PHRASE_MODELS: ("", lambda params: ()),
}


def chosen_modules(
    files: Collection[str], keys: Collection[str], params: CommonParams
) -> Iterator[str]:
    """The modules that a stage may load of the registries that it uses.

    Args:
        files: what the stage may load beside them.
        keys: the sections of params.yaml that it reads; scoring imports what training needs, and
            makes no loss.
        params: what chooses.
    """
    for registry, (user, choose) in REGISTRIES.items():
        if user in files and (registry is not LOSSES or "loss" in keys):
            yield from (registry.module(name) for name in choose(params) if name in registry)


def check_registries() -> None:
    """Raise WorkbenchError for a file that claims a name and does not offer what it must.

    All files are read and none is imported.
    """
    for registry in REGISTRIES:
        registry.entries()
    check_models()
