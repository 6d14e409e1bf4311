"""All folders whose files register themselves, and which of their entries a params.yaml chooses."""

from collections.abc import Collection, Iterable, Iterator

from models.backbone.networks import NETWORKS
from models.backbone.poolings import POOLINGS
from models.ranking import LOSSES
from models.registry import check_models
from pipeline.corpus.dataset import POSITIVES, READERS
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.metrics import FILES as METRIC_FILES
from pipeline.features.imports import IMPORTS
from pipeline.features.regions.imports import REGION_FILES
from pipeline.features.sentences.encodings import ENCODINGS
from pipeline.runtime.registry import Registry
from stages.params import CommonParams

# By registry the file through which stages use it (one that cannot load it uses no entry), and the
# section of params.yaml that chooses, None where that does not depend on the sections it reads.
REGISTRIES: dict[Registry, tuple[str, str | None]] = {
    LOSSES: ("models/ranking.py", "loss"),
    READERS: ("pipeline/corpus/dataset/__init__.py", "dataset"),
    POSITIVES: ("pipeline/corpus/dataset/__init__.py", "dataset"),
    IMPORTS: ("pipeline/features/imports/__init__.py", None),
    REGION_FILES: ("pipeline/features/regions/imports/__init__.py", "regions"),
    ENCODINGS: ("pipeline/features/sentences/encodings/__init__.py", None),
    NETWORKS: ("models/backbone/networks/__init__.py", None),
    POOLINGS: ("models/backbone/poolings/__init__.py", None),
    CRITERIA: ("pipeline/evaluation/criteria/__init__.py", "inference"),
    METRIC_FILES: ("pipeline/evaluation/columns.py", None),
}


def _chosen(params: CommonParams) -> dict[Registry, Iterable[str]]:
    """Names that params.yaml chooses; those that are no entry, such as `none`, are left out."""
    images = params.image_features
    boxes = params.phrases.features.network
    return {
        LOSSES: (params.loss, "sum_margin"),  # the warm-up of losses that may collapse
        READERS: READERS if params.dataset == "auto" else [params.dataset],
        POSITIVES: [params.corpus.positives],
        IMPORTS: [images.source, params.sentences.encoding],
        REGION_FILES: [params.regions.source],
        ENCODINGS: [params.sentences.encoding],
        NETWORKS: (images.model, params.regions.network.model, boxes.model),
        # mean: of grids of cells, and of a network whose fc7 describes boxes
        POOLINGS: ("mean", images.pool, boxes.pool),
        CRITERIA: ("naive", *params.inference.criteria),
        METRIC_FILES: METRIC_FILES,
    }


def chosen_modules(
    files: Collection[str], keys: Collection[str], params: CommonParams
) -> Iterator[str]:
    """Modules of registries that a stage may load, as far as params.yaml chooses them.

    Args:
        files: the other files of code that the stage may load, paths from the project's folder.
        keys: the sections of params.yaml that it reads.
        params: of all sections.

    Yields:
        Names of modules, such as models.losses.sum_margin.
    """
    for registry, names in _chosen(params).items():
        through, key = REGISTRIES[registry]
        if through in files and (key is None or key in keys):
            yield from (registry.module(name) for name in names if name in registry)


def check_registries() -> None:
    """Raise WorkbenchError for a file that does not offer what its place promises; imports none."""
    for registry in REGISTRIES:
        registry.entries()
    check_models()
