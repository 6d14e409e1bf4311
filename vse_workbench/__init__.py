"""VSE Workbench for people: the command `vse`, and the names below for programs (docs/api.md).

A name is imported when it is asked for: torch takes seconds to load, and `vse --help` needs none.
"""

import ast
import sys
from functools import cache
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # read by __getattr__, too: a name stands here alone
    from models.attention.cosines import attended_cosines as attended_cosines
    from models.attention.cosines import attention_weights as attention_weights
    from models.attention.cosines import gram_cosines as gram_cosines
    from models.attention.pooling import pool_cosines as pool_cosines
    from models.cca import Canonical as Canonical
    from models.cca import fit_cca as fit_cca
    from models.dual_path.instance import InstanceLoss as InstanceLoss
    from models.losses import PairLoss as PairLoss
    from models.losses import RankingLoss as RankingLoss
    from models.ranking import loss_class as loss_class
    from models.two_branch import StructureLoss as StructureLoss
    from pipeline.corpus.vocabulary import Vocabulary as Vocabulary
    from pipeline.evaluation.criterion import Criterion as Criterion
    from pipeline.evaluation.figures import Measured as Measured
    from pipeline.evaluation.figures import measure as measure
    from pipeline.evaluation.matrix import evaluate as evaluate
    from pipeline.evaluation.metrics import Metric as Metric
    from pipeline.evaluation.paired import Difference as Difference
    from pipeline.evaluation.protocol import Evaluation as Evaluation
    from pipeline.evaluation.ranks import Ranks as Ranks
    from pipeline.evaluation.ranks import retrieval_ranks as retrieval_ranks
    from pipeline.evaluation.revisions import compare_runs as compare_runs
    from pipeline.evaluation.revisions import load_scores as load_scores
    from pipeline.evaluation.score_file import SplitScores as SplitScores
    from pipeline.evaluation.score_file import write_scores as write_scores
    from pipeline.features.feature_file import FeatureFile as FeatureFile
    from pipeline.features.feature_file import write_features as write_features
    from pipeline.features.sentences.fisher import FisherVector as FisherVector
    from pipeline.features.sentences.mixtures import Mixture as Mixture
    from pipeline.features.sentences.mixtures import fit_mixture as fit_mixture
    from pipeline.runtime.errors import WorkbenchError as WorkbenchError
    from vse_workbench.export.embedder import Embedder as Embedder
    from vse_workbench.search.searcher import Answer as Answer
    from vse_workbench.search.searcher import Question as Question
    from vse_workbench.search.searcher import Searcher as Searcher

FOLDER = Path(__file__).resolve().parent
BLOCKS = {name: FOLDER.with_name(name) for name in ("pipeline", "models", "stages")}


class _OwnBlocks:
    """Finds our packages of common names where we are, whatever the working directory holds."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        return PathFinder.find_spec(name, [str(FOLDER.parent)]) if name in BLOCKS else None


for _name, _folder in BLOCKS.items():
    _places = getattr(sys.modules.get(_name, object), "__path__", [])
    if _name in sys.modules and _folder not in [Path(path).resolve() for path in _places]:
        raise ImportError(
            f"{_name}: a package of this name is imported already, from "
            f"{', '.join(_places) or sys.modules[_name].__file__}; VSE Workbench needs the one in "
            f"{_folder}: rename yours, or import vse_workbench in a process of its own"
        )
sys.meta_path.insert(0, _OwnBlocks)


def __getattr__(name: str) -> Any:
    """A name of the list above; AttributeError, so that Python says ImportError, for others."""
    modules = _modules()
    if name in modules:
        return getattr(import_module(modules[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(_modules())


@cache
def _modules() -> dict[str, str]:
    """The module of each name, from the source of this file."""
    nodes = ast.walk(ast.parse(Path(__file__).read_text(encoding="utf-8")))
    imports = [node for node in nodes if isinstance(node, ast.ImportFrom)]
    return {item.name: str(node.module) for node in imports for item in node.names if item.asname}
