"""All folders whose files register themselves, and which of their entries a params.yaml chooses."""

from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

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

# By registry the file through which stages use it: a stage that cannot load it uses no entry.
REGISTRIES = {
    LOSSES: "models/ranking.py",
    READERS: "pipeline/corpus/dataset/__init__.py",
    POSITIVES: "pipeline/corpus/dataset/__init__.py",
    IMPORTS: "pipeline/features/imports/__init__.py",
    REGION_FILES: "pipeline/features/regions/imports/__init__.py",
    ENCODINGS: "pipeline/features/sentences/encodings/__init__.py",
    NETWORKS: "models/backbone/networks/__init__.py",
    POOLINGS: "models/backbone/poolings/__init__.py",
    CRITERIA: "pipeline/evaluation/criteria/__init__.py",
    METRIC_FILES: "pipeline/evaluation/rank_file.py",
}


class Choice(NamedTuple):
    """What params.yaml chooses of a registry."""

    registry: Registry
    section: str | None  # that chooses; None: a stage uses these whatever sections it reads
    names: Iterable[str]  # those that are no entry, such as `none`, are passed over


def _choices(params: CommonParams) -> list[Choice]:
    images = params.image_features
    boxes = params.phrases.features.network
    readers = READERS if params.dataset == "auto" else [params.dataset]
    encoding = params.sentences.encoding
    # of phases that have one of their own
    of_phases = [
        phase.loss
        for _, section in params
        for phase in getattr(section, "phases", ())
        if phase.loss is not None
    ]
    networks = (images.model, params.regions.network.model, boxes.model)
    return [
        Choice(LOSSES, "loss", (params.loss, "sum_margin", *of_phases)),  # the second is a warm-up
        Choice(READERS, "dataset", readers),
        Choice(POSITIVES, "dataset", [params.corpus.positives]),
        Choice(IMPORTS, "image_features", [images.source]),
        Choice(IMPORTS, "sentences", [encoding]),
        Choice(REGION_FILES, "regions", [params.regions.source]),
        Choice(ENCODINGS, None, [encoding]),
        Choice(NETWORKS, None, networks),
        # mean: of grids of cells, and of a network whose fc7 describes boxes
        Choice(POOLINGS, None, ("mean", images.pool, boxes.pool)),
        Choice(CRITERIA, "inference", ("naive", *params.inference.criteria)),
        Choice(METRIC_FILES, None, METRIC_FILES),
    ]


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
    for registry, section, names in _choices(params):
        if REGISTRIES[registry] in files and (section is None or section in keys):
            yield from (registry.module(name) for name in names if name in registry)


def check_registries() -> None:
    """Raise WorkbenchError for a file that does not offer what its place promises; imports none."""
    for registry in REGISTRIES:
        registry.entries()
    check_models()
