"""params.yaml as typed, frozen sections: the only reader of that file.

A key that the file leaves out has the default of its type; an unknown key is refused, so that a
misspelt override never passes unnoticed. What dvc.yaml names must stand in the file. All problems
are reported at once.
"""

import difflib
import reprlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails, InitErrorDetails

from models.backbone.params import UNNAMED, ImageFeaturesConfig
from models.backbone.poolings import POOLINGS
from models.base.model import Settings
from models.base.registry import config_of, model_names
from models.detector.params import DetectorConfig
from models.dual_path.params import PseudoClassesConfig
from models.phrases.params import PhraseCCAConfig, PhraseTwoBranchConfig
from models.ranking import LOSSES
from models.ranking.params import RankingConfig
from pipeline.dataset import READERS, brings_boxes
from pipeline.dataset.params import CorpusConfig, ShapesConfig
from pipeline.evaluation.criteria import needs_matrix
from pipeline.evaluation.params import EvaluationConfig, InferenceConfig
from pipeline.phrases.params import PhrasesConfig
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.recipes import merge
from pipeline.runtime.section import (
    AS_WRITTEN,
    WRONG_VALUE,
    WRONG_WHOLE,
    ExistingPath,
    RuntimeConfig,
    Section,
    contradictions,
    one_of,
    wrong_value,
    wrong_whole,
)
from pipeline.runtime.yaml_text import COMPLETE, UNDO, read_yaml
from pipeline.scores.params import (
    ALLOWED_NAME,
    FILE_NAME,
    AverageConfig,
    ExternalConfig,
    ScoringConfig,
)
from pipeline.search.params import SearchConfig
from pipeline.sentences.params import SentencesConfig
from pipeline.words.params import VocabularyConfig

if TYPE_CHECKING:  # for annotations alone: check_params does without its libraries
    from pipeline.inputs.origin import Origin

# Keys of earlier versions, and the keys that took their place and take over their values; none for
# a key that is read no more. `vse complete` moves them.
MOVED: dict[str, tuple[str, ...]] = {
    "inference.criterion": ("inference.criteria",),
    "ranking.margin": ("vse.margin", "scan.margin", "dp_rnn.margin"),
    "ranking.reduction": tuple(
        f"{model}.training.reduction" for model in ("vse", "two_branch", "scan", "dp_rnn")
    ),
    "ranking.warmup_epochs": tuple(
        f"{model}.training.warmup_epochs" for model in ("vse", "two_branch", "scan")
    ),
    # constants beside their code since
    "detector.layers": (),
    "detector.training.attribute_weight": (),
    "detector.training.threshold": (),
    "detector.training.weight_decay": (),
    "phrase_cca.regions_per_phrase": (),
    "phrase_two_branch.regions_per_phrase": (),
    "pseudo_classes.initialisation": (),
    "pseudo_classes.iterations": (),
    "pseudo_classes.tolerance": (),
    "vocabulary.window": (),
}
NAMED = ("average_scores", "external")  # sections whose keys are names that the user chose
# Keys inside sections that dvc.yaml names: DVC does not know the defaults.
TRACKED = (
    "corpus.max_megapixels",
    "corpus.positives",
    "evaluation.bootstrap",
    "evaluation.confidence",
    "phrases.features",
    "phrases.nms",
    "phrases.path",
    "phrases.proposals",
    "phrases.source",
    "phrases.splits",
    "phrases.train_images",
    "scoring.keep",
    "scoring.shortlist",
    "search.hnsw",
    "search.index",
    "search.ivf_pq",
    "search.models",
)


class CommonParams(Section):
    """What stands in params.yaml beside the models' sections."""

    loss: Annotated[str, one_of(LOSSES)] = "sum_margin"
    dataset: Annotated[str, one_of(READERS)] = "shapes"
    raw: ExistingPath = "data/raw/shapes"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    inference: InferenceConfig = InferenceConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    runtime: RuntimeConfig = RuntimeConfig()
    ranking: RankingConfig = RankingConfig()
    vocabulary: VocabularyConfig = VocabularyConfig()
    sentences: SentencesConfig = SentencesConfig()
    image_features: ImageFeaturesConfig = ImageFeaturesConfig()
    regions: RegionsConfig = RegionsConfig()
    detector: DetectorConfig = DetectorConfig()
    pseudo_classes: PseudoClassesConfig = PseudoClassesConfig()
    scoring: ScoringConfig = ScoringConfig()
    average_scores: dict[str, AverageConfig] = Field(
        default={"scan_dp_rnn": AverageConfig(members=["scan", "dp_rnn"])}
    )
    external: dict[str, ExternalConfig] = Field(default={})
    corpus: CorpusConfig = CorpusConfig()
    shapes: ShapesConfig = ShapesConfig()
    phrases: PhrasesConfig = PhrasesConfig()
    phrase_two_branch: PhraseTwoBranchConfig = PhraseTwoBranchConfig()
    phrase_cca: PhraseCCAConfig = PhraseCCAConfig()
    search: SearchConfig = SearchConfig()

    @contradictions
    def _sections_fit(self) -> Iterator[InitErrorDetails]:
        yield from self._word_widths()
        yield from self._detector_and_what_it_serves()
        yield from self.sentences.beyond(self.vocabulary.known_dim)
        yield from self._pooling_of_boxes()
        yield from self._names_of_score_files()
        yield from self._members_of_averages()
        yield from self._models_with_an_index()
        yield from self._what_needs_scores()

    def _word_widths(self) -> Iterator[InitErrorDetails]:
        dim = self.vocabulary.known_dim
        for name, section in self:  # of any model that may start from the vocabulary's vectors
            pretrained = getattr(section, "word_vectors", None) == "pretrained"
            if pretrained and dim is not None and section.word_dim != dim:
                yield wrong_value(
                    f"{name}.word_dim",
                    section.word_dim,
                    f"must equal vocabulary.dim = {dim!r} when {name}.word_vectors is 'pretrained'",
                )

    def _detector_and_what_it_serves(self) -> Iterator[InitErrorDetails]:
        if self.detector.weights == "train" and not brings_boxes(self.dataset):
            yield wrong_value(
                "detector.weights",
                "train",
                f"the dataset {self.dataset!r} has no boxes to learn from; "
                "set it to random or to the path of a detector's weights",
            )
        served: dict[str, Any] = {}
        if self.image_features.source == "network":
            served["image_features"] = self.image_features
        if self.regions.source == "grid":
            served["regions.network"] = self.regions.network
        architecture = self.detector.architecture
        for key, network in served.items():
            if network.weights == "detector" and f"fpn_{network.model}" != architecture:
                yield wrong_value(
                    f"{key}.weights",
                    "detector",
                    f"a {architecture!r} does not hold a {network.model!r}; "
                    "give both the same ResNet, as fpn_resnet18 and resnet18, or choose other "
                    "weights",
                )

    def _pooling_of_boxes(self) -> Iterator[InitErrorDetails]:
        pool, allowed = self.phrases.features.network.pool, (*POOLINGS, "fc7")
        if pool not in allowed:
            text = f"allowed are {', '.join(allowed)}"
            yield wrong_value("phrases.features.network.pool", pool, text)

    def _names_of_score_files(self) -> Iterator[InitErrorDetails]:
        kinds = {"average_scores": "average", "external": "external model"}
        for section, kind in kinds.items():
            for name in getattr(self, section):
                if not FILE_NAME.fullmatch(name):
                    yield wrong_whole(section, f"{name!r}: {ALLOWED_NAME}")
                elif name in type(self).model_fields:
                    text = f"{name} is a section of its own here; give the {kind} another name"
                    yield wrong_whole(f"{section}.{name}", text)
        for name in sorted(set(self.external) & set(self.average_scores)):
            yield wrong_whole(f"external.{name}", "an average of average_scores has this name")

    def _members_of_averages(self) -> Iterator[InitErrorDetails]:
        for name, average in self.average_scores.items():
            if name in average.members:
                text = "an average cannot be a member of itself"
                yield wrong_value(f"average_scores.{name}.members", average.members, text)

    def _models_with_an_index(self) -> Iterator[InitErrorDetails]:
        for name in self.search.models:
            if name not in model_names():
                text = f"{name!r} is no model; allowed are {', '.join(model_names())}"
                yield wrong_value("search.models", self.search.models, text)

    def _what_needs_scores(self) -> Iterator[InitErrorDetails]:
        for name in filter(needs_matrix, self.inference.criteria):
            if self.scoring.keep == "embeddings":
                text = f"inference.criteria names {name}, which needs the whole matrix; "
                yield wrong_value(
                    "scoring.keep", "embeddings", text + "keep scores, or take it out"
                )

    @property
    def corpus_name(self) -> str:
        """What tables call the corpus: its reader's name, or its folder's where files chose it."""
        return Path(self.raw).resolve().name if self.dataset == "auto" else self.dataset

    def origins(self) -> dict[str, "Origin"]:
        """What files of features must say of themselves, by the section they are made with."""
        found = self._image_origin(), self._region_origin(), self._sentence_origin()
        return {origin.section: origin for origin in found}

    def _image_origin(self) -> "Origin":
        from models.backbone.provenance import provenance
        from pipeline.inputs.origin import Origin

        section, network = self.image_features, self.image_features.source == "network"
        made = provenance(section.model_dump(mode="json"), self.seed) if network else {}
        return Origin(
            "image_features",
            "extract_image_features",
            section.model if network else None,
            {"source": section.source, "file": section.file.read_names()} | made,
            "image_features.source: file",
            {"source": "network", **UNNAMED},
        )

    def _region_origin(self) -> "Origin":
        from models.backbone.provenance import provenance
        from pipeline.inputs.origin import Origin
        from pipeline.regions.file import used

        section = self.regions
        made, unsaid = used(section.model_dump(mode="json")), {}
        models = {"detector": self.detector.architecture, "grid": section.network.model}
        if section.source == "grid":
            made["network"] = provenance(made["network"], self.seed)
            unsaid["network"] = UNNAMED
            if section.network.layers is None:  # the network's own choice, which the file names
                del made["network"]["layers"]
        return Origin(
            "regions",
            "extract_region_features",
            models.get(section.source, f"imported from {section.source}"),
            made,
            "regions.source",
            unsaid,
        )

    def _sentence_origin(self) -> "Origin":
        from pipeline.inputs.origin import Origin

        section, name = self.sentences, self.sentences.encoding
        made: dict[str, Any] = {"encoding": name}
        if name == "file":
            made["file"] = section.file.read_names()
        elif own := getattr(section, name, None):
            made |= {"seed": self.seed, name: own.model_dump(mode="json")}
        if name == "tfidf":  # files are told by their content
            chosen = made[name]
            chosen["lemmatiser"] = {"name": chosen["lemmatiser"]}
            if chosen["stop_words"] not in ("function_words", "none"):
                del chosen["stop_words"]
        own_file = "sentences.encoding: file"
        return Origin("sentences", "encode_sentences", None, made, own_file)

    def model(self, name: str) -> Settings:
        """What the file says to a model."""
        return Settings(getattr(self, name), self.loss, self.ranking, self.seed)


def _default(name: str) -> Section:
    kind = config_of(name)
    lacking = [key for key, field in kind.model_fields.items() if field.is_required()]
    if lacking:
        raise WorkbenchError(
            f"models/{name}/params.py: {listing(lacking)} without a default",
            "give every key one, such as dim: Count = 256",
        )
    return kind()


# The whole of params.yaml: a section of its own for every model that there is.
CONFIGS: dict[str, Any] = {name: (config_of(name), _default(name)) for name in model_names()}
if taken := sorted(set(CONFIGS) & set(CommonParams.model_fields)):
    raise WorkbenchError(f"models/{taken[0]}: {taken[0]} is a section of params.yaml already")
Params = create_model("Params", __base__=CommonParams, **CONFIGS)


def default_values() -> dict[str, Any]:
    """Every key with its default, as params.yaml writes it."""
    values: dict[str, Any] = Params.model_construct().model_dump(mode="json", context=AS_WRITTEN)
    return values


def filled(values: Mapping[str, Any]) -> dict[str, Any]:
    """The sections of a params.yaml with the defaults of the keys that they leave out."""
    defaults = default_values()
    return {
        name: merge(defaults[name], value)
        if isinstance(value, Mapping) and isinstance(defaults.get(name), Mapping)
        and name not in NAMED else value
        for name, value in values.items()
    }  # fmt: skip


MOST_DESCRIBED = 100  # problems of one file
MISSING = "missing_in_file"  # type of a problem: dvc.yaml names a key that the file lacks


def load_params(path: Path | str = "params.yaml") -> CommonParams:
    """Read and validate a params.yaml; WorkbenchError names every wrong key and its value."""
    values = read_yaml(Path(path))
    details = _details(values)
    if details:
        count = "1 problem" if len(details) == 1 else f"{len(details)} problems"
        old = [_is_of_an_earlier_version(detail) for detail in details]
        hints = [COMPLETE] * any(old) + [UNDO] * (not all(old))
        problems = "\n  ".join(_described(details))
        raise WorkbenchError(f"{path}: {count}\n  {problems}", "\n".join(hints))
    return Params.model_validate(filled(values))


def find_problems(values: dict[str, Any]) -> Iterator[str]:
    """Yield one line per problem: first of single keys, then of combinations that can be judged."""
    yield from _described(_details(values))


def _described(details: list[ErrorDetails]) -> Iterator[str]:
    yield from map(describe, details[:MOST_DESCRIBED])
    if len(details) > MOST_DESCRIBED:
        yield f"and {len(details) - MOST_DESCRIBED:,} more"


def _details(values: dict[str, Any]) -> list[ErrorDetails]:
    lacking = [*_lacking(values, Params.model_fields), *_lacking(values, TRACKED)]
    try:
        Params.model_validate(filled(values))
    except ValidationError as error:
        return lacking + error.errors()
    return lacking


def _lacking(values: dict[str, Any], keys: Iterable[str]) -> Iterator[ErrorDetails]:
    """A problem for each of some dotted keys that is missing in a section of the file."""
    for key in keys:
        *section, name = key.split(".")
        holder = values.get(section[0], ...) if section else values
        if isinstance(holder, dict) and name not in holder:
            yield ErrorDetails(type=MISSING, loc=tuple(key.split(".")), msg="", input=None)


def _is_of_an_earlier_version(detail: ErrorDetails) -> bool:
    """Whether a problem is one that `vse complete` may mend."""
    moved = ".".join(map(str, detail["loc"])) in MOVED
    return moved or detail["type"] == MISSING


def describe(detail: ErrorDetails) -> str:
    """One line for one pydantic error: key, value, what is allowed."""
    location = list(detail["loc"])
    key = ".".join(str(part) for part in location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == WRONG_WHOLE:
        return f"{key}: {detail['msg']}"
    if kind == WRONG_VALUE:
        return f"{key} = {_brief(value)}: {detail['msg']}"
    if key in MOVED:
        return f"{key} = {_brief(value)}: unknown key; {_fate(MOVED[key])}"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _siblings(location[:-1]), n=1)
        return f"{key} = {_brief(value)}: unknown key" + (
            f"; did you mean {near[0]}?" if near else ""
        )
    if kind == MISSING:
        what = "section" if isinstance(default_values().get(key), dict) else "key"
        return f"{what} {key} is missing; add it with: vse complete"
    if kind == "missing":
        return f"{key}: missing; an item of a list has all its keys"
    if kind == "literal_error":
        return f"{key} = {_brief(value)}: allowed are {_plain(context['expected'])}"
    if kind in ("string_too_short", "too_short"):
        return f"{key} = {_brief(value)}: must not be empty"
    if kind in ("model_type", "model_attributes_type"):
        return f"{key} = {_brief(value)}: must be a section with keys {_keys(location)}"
    allowed = detail["msg"].replace("Input should be", "must be").replace("Input", "value")
    return f"{key} = {_brief(value)}: {allowed}"


def _fate(places: tuple[str, ...]) -> str:
    return f"it is {', '.join(places)} now" if places else "it is read no more"


def _brief(value: Any) -> str:
    """A value for a message; cut, because aliases let a small file stand for a huge value."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 240, 120
    return short.repr(value)


def _plain(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _keys(location: list[Any]) -> str:
    return ", ".join(_siblings(location))


def _siblings(location: list[Any]) -> list[str]:
    section: Any = Params
    for part in location:
        if get_origin(section) is dict:  # a section whose keys are names that the user chose
            section = get_args(section)[1]
        else:
            field = _fields(section).get(part)
            section = field.annotation if field else None
    return list(_fields(section))


def _fields(section: Any) -> dict[str, FieldInfo]:
    is_section = isinstance(section, type) and issubclass(section, BaseModel)
    return section.model_fields if is_section else {}
