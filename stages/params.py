"""params.yaml as typed, frozen sections: the only reader of that file.

A key that the file leaves out has the default of its type; an unknown key is refused. All problems
are reported at once.
"""

import difflib
import re
import reprlib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin

from pydantic import Field, ValidationError, create_model
from pydantic_core import ErrorDetails, InitErrorDetails

from models.backbone.params import UNNAMED, ImageFeaturesConfig
from models.backbone.params import provenance as image_provenance
from models.backbone.poolings import POOLINGS
from models.detector.params import DetectorConfig
from models.dual_path.classes import PseudoClassesConfig
from models.phrases import PHRASE_MODELS, load_phrase_model
from models.ranking import LOSSES, RankingConfig, warms_up
from models.registry import load_model, model_names
from pipeline.corpus.dataset import READERS
from pipeline.corpus.params import CorpusConfig, ShapesConfig
from pipeline.corpus.words.params import VocabularyConfig
from pipeline.evaluation.criteria import CRITERIA
from pipeline.evaluation.paper_rows import PublishedConfig, exchanged_splits
from pipeline.evaluation.params import (
    ALLOWED_NAME,
    FILE_NAME,
    AverageConfig,
    EvaluationConfig,
    ExternalConfig,
    InferenceConfig,
    RerankConfig,
    ScoringConfig,
)
from pipeline.features.regions.params import RegionsConfig
from pipeline.features.regions.params import provenance as region_provenance
from pipeline.features.sentences.params import SentencesConfig
from pipeline.phrases.params import PhrasesConfig
from pipeline.runtime.edits import EDITS
from pipeline.runtime.errors import WorkbenchError, counted
from pipeline.runtime.recipes import merge
from pipeline.runtime.repeatable import set_threads
from pipeline.runtime.section import (
    AS_WRITTEN,
    WRONG_VALUE,
    WRONG_WHOLE,
    ExistingPath,
    RuntimeConfig,
    Section,
    cross_check,
    in_queued_run,
    one_of,
    wrong_value,
    wrong_whole,
)
from pipeline.runtime.yaml_text import UNDO, plain_text, read_yaml
from pipeline.search.params import SearchConfig
from pipeline.training.params import CommonTraining, SharedTraining, TrainingConfig

if TYPE_CHECKING:  # for annotations alone: their libraries take seconds to load
    from models.base import Run
    from pipeline.features.origin import Origin

MADE_OF_PIXELS = ("detector", "grid")  # values of regions.source
NAMED = ("average_scores", "external", "rerank")  # their keys are names that the user chose
# What a value must be, by pydantic's name for the error of another type.
TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "bool_type": "true or false",
    "string_type": "a text",
    "list_type": "a list",
    "tuple_type": "a list",
}


class MoreModelConfig(Section):
    """An entry of the section `more_models`, which has no keys: its name says all."""


class CommonParams(Section):
    """What stands in params.yaml beside the models' sections."""

    loss: Annotated[str, one_of(LOSSES)] = "sum_margin"
    dataset: Annotated[str, one_of(READERS)] = "shapes"
    raw: ExistingPath = "data/raw/shapes"
    seed: Annotated[int, Field(ge=0, lt=2**32)] = 0
    inference: InferenceConfig = InferenceConfig()
    evaluation: EvaluationConfig = EvaluationConfig()
    published: list[PublishedConfig] = Field(default=[])
    runtime: RuntimeConfig = RuntimeConfig()
    ranking: RankingConfig = RankingConfig()
    training: CommonTraining = CommonTraining()
    more_models: dict[str, MoreModelConfig] = Field(default={})
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
    rerank: dict[str, RerankConfig] = Field(
        default={"vse_scan": RerankConfig(first="vse", second="scan", top=20)}
    )
    corpus: CorpusConfig = CorpusConfig()
    shapes: ShapesConfig = ShapesConfig()
    phrases: PhrasesConfig = PhrasesConfig()
    search: SearchConfig = SearchConfig()

    @cross_check
    def _sections_fit(self) -> Iterator[InitErrorDetails]:
        yield from self._word_widths()
        yield from self._warm_ups_leave_epochs()
        yield from self._detector_and_what_it_serves()
        yield from self._what_needs_photographs()
        yield from self._names_of_score_files()
        yield from self._published_figures()
        pool = self.phrases.features.network.pool
        allowed = (*POOLINGS, "fc7")
        if pool not in allowed:
            text = f"allowed are {', '.join(allowed)}"
            yield wrong_value("phrases.features.network.pool", pool, text)
        for name in self.more_models:
            if name not in model_names():
                text = f"{name!r} is no model; allowed are {', '.join(model_names())}"
                yield wrong_whole("more_models", text)
        for name in self.search.models:
            if name not in model_names():
                text = f"{name!r} is no model; allowed are {', '.join(model_names())}"
                yield wrong_value("search.models", self.search.models, text)
        for name in self.inference.criteria:
            if self.scoring.keep == "embeddings" and CRITERIA.constant(name, "WHOLE_MATRIX"):
                text = f"inference.criteria names {name}, which needs the whole matrix"
                yield wrong_value("scoring.keep", "embeddings", f"{text}; keep scores")

    def _word_widths(self) -> Iterator[InitErrorDetails]:
        dim = self.vocabulary.known_dim
        for name, section in self:  # of any model that may start from the vocabulary's vectors
            pretrained = getattr(section, "word_vectors", None) == "pretrained"
            if pretrained and dim is not None and section.word_dim != dim:
                text = f"must equal vocabulary.dim = {dim!r} when {name}.word_vectors is "
                yield wrong_value(f"{name}.word_dim", section.word_dim, text + "'pretrained'")

    def _warm_ups_leave_epochs(self) -> Iterator[InitErrorDetails]:
        limited = {"lr_warmup_epochs": ""}
        limited |= {"warmup_epochs": f" if loss is {self.loss}"} if warms_up(self.loss) else {}
        for name, section in self:
            training = getattr(section, "training", None)
            if not isinstance(training, TrainingConfig):
                continue
            for key, when in limited.items():
                epochs = getattr(training, key)
                if epochs >= training.epochs:
                    text = f"must be below epochs = {training.epochs}{when}; 0: none"
                    yield wrong_value(f"{name}.training.{key}", epochs, text)

    def _detector_and_what_it_serves(self) -> Iterator[InitErrorDetails]:
        if self.detector.weights == "train" and not READERS.constant(self.dataset, "BOXES"):
            text = f"the dataset {self.dataset!r} has no boxes to learn from; "
            text += "set it to random or to the path of a detector's weights"
            yield wrong_value("detector.weights", "train", text)
        served: dict[str, Any] = {}
        if self.image_features.source == "network":
            served["image_features"] = self.image_features
        if self.regions.source == "grid":
            served["regions.network"] = self.regions.network
        if self.phrases.source != "none" and self.phrases.features.source == "network":
            served["phrases.features.network"] = self.phrases.features.network
        architecture = self.detector.architecture
        for key, network in served.items():
            if network.weights == "detector" and f"fpn_{network.model}" != architecture:
                text = f"a {architecture!r} does not hold a {network.model!r}; give both the same "
                text += "ResNet, as fpn_resnet18 and resnet18, or choose other weights"
                yield wrong_value(f"{key}.weights", "detector", text)
            elif network.weights == "detector" and self.detector.weights in ("train", "random"):
                held = [f"layer{n + 1}" for n in range(len(self.detector.anchors))]
                asked = network.layers or ["layer4"]
                if any(re.match("layer[1-4]", at) and at[:6] not in held for at in asked):
                    text = f"with {len(held)} lists in detector.anchors the detector holds "
                    text += f"{', '.join(held)}; cut there, or give it more lists"
                    yield wrong_value(f"{key}.layers", network.layers, text)

    def _what_needs_photographs(self) -> Iterator[InitErrorDetails]:
        if READERS.constant(self.dataset, "PHOTOGRAPHS", True):
            return
        if self.image_features.source == "network" and self.regions.source in MADE_OF_PIXELS:
            text = f"the dataset {self.dataset!r} has no photographs; set it to file, or "
            text += "regions.source to scan_npy, tsv or butd_h5, with the path of the features"
            yield wrong_value("image_features.source", "network", text)
        for name, section in self:
            tuning = getattr(section, "fine_tuning", None)
            if tuning is not None and tuning.epochs:
                text = f"the dataset {self.dataset!r} has no photographs to tune on; 0: none"
                yield wrong_value(f"{name}.fine_tuning.epochs", tuning.epochs, text)

    def _names_of_score_files(self) -> Iterator[InitErrorDetails]:
        owners: dict[str, str] = {}
        for section in NAMED:
            for name in getattr(self, section):
                if not FILE_NAME.fullmatch(name):
                    yield wrong_whole(section, f"{name!r}: {ALLOWED_NAME}")
                    continue
                if name in type(self).model_fields:
                    text = f"{name} is a section of params.yaml; choose another name"
                    yield wrong_whole(f"{section}.{name}", text)
                    continue
                owner = owners.setdefault(name, section)
                if owner != section:
                    yield wrong_whole(f"{section}.{name}", f"{owner} has this name; choose another")
        for name, average in self.average_scores.items():
            if name in average.members:
                text = "an average cannot be a member of itself"
                yield wrong_value(f"average_scores.{name}.members", average.members, text)
        scored = [*model_names(), *self.average_scores, *self.external]
        for name, pair in self.rerank.items():
            for key, model in (("first", pair.first), ("second", pair.second)):
                if model not in scored:
                    text = f"has no scores; allowed are {', '.join(scored)}"
                    yield wrong_value(f"rerank.{name}.{key}", model, text)

    def _published_figures(self) -> Iterator[InitErrorDetails]:
        evaluated = [*model_names(), *self.average_scores, *self.external, *self.rerank]
        for number, row in enumerate(self.published):
            for key, value, allowed in (
                ("model", row.model, evaluated),
                ("criterion", row.criterion, ["naive", *CRITERIA]),
            ):
                if value not in allowed:
                    text = f"allowed are {', '.join(dict.fromkeys(allowed))}"
                    yield wrong_value(f"published.{number}.{key}", value, text)
        for number, text in exchanged_splits(self.published):
            yield wrong_whole(f"published.{number}", text)

    @property
    def corpus_name(self) -> str:
        """What tables call the corpus: its reader's name, or its folder's where files chose it."""
        return Path(self.raw).resolve().name if self.dataset == "auto" else self.dataset

    def origins(self) -> dict[str, "Origin"]:
        """What files of features must say of themselves, by the section they are made with."""
        from pipeline.features.origin import Origin

        origins = self._image_origin(), self._region_origin(), self._sentence_origin()
        params = {"transformer": self.sentences.transformer.named()}
        tokens = Origin(
            section="sentences", stage="encode_tokens", model=None, params=params, own=""
        )
        return {origin.section: origin for origin in origins} | {"token_states": tokens}

    def _image_origin(self) -> "Origin":
        from pipeline.features.origin import Origin

        section = self.image_features
        network = section.source == "network"
        params = image_provenance(section.model_dump(mode="json")) if network else {}
        return Origin(
            section="image_features",
            stage="extract_image_features",
            model=section.model if network else None,
            params={"source": section.source, "file": section.file.read_names()} | params,
            own="image_features.source: file",
            unsaid={"source": "network", **UNNAMED},
        )

    def _region_origin(self) -> "Origin":
        from pipeline.features.origin import Origin

        section = self.regions
        params = region_provenance(section.model_dump(mode="json"))
        unsaid = {}
        models = {"detector": self.detector.architecture, "grid": section.network.model}
        if section.source == "grid":
            params["network"] = image_provenance(params["network"])
            unsaid["network"] = UNNAMED
            if section.network.layers is None:  # the network's own choice, which the file names
                del params["network"]["layers"]
        return Origin(
            section="regions",
            stage="extract_region_features",
            model=models.get(section.source, f"imported from {section.source}"),
            params=params,
            own="regions.source",
            unsaid=unsaid,
        )

    def _sentence_origin(self) -> "Origin":
        from pipeline.features.origin import Origin

        section = self.sentences
        name = section.encoding
        options = getattr(section, name, None)
        params: dict[str, Any] = {"encoding": name}
        if name == "file":
            params["file"] = section.file.read_names()
        elif options:
            params |= {"seed": self.seed, name: options.model_dump(mode="json")}
        if name == "transformer":
            params[name] = section.transformer.named()
        if name == "tfidf":  # files are told by their content
            chosen = params[name]
            chosen["lemmatiser"] = {"name": chosen["lemmatiser"]}
            if chosen["stop_words"] not in ("function_words", "none"):
                del chosen["stop_words"]
        return Origin(
            section="sentences",
            stage="encode_sentences",
            model=None,
            params=params,
            own="sentences.encoding: file",
        )


def model_config(name: str) -> type[Section]:
    """The type of a model's section of params.yaml; the model's file is imported, and torch."""
    kind = load_phrase_model(name) if name in PHRASE_MODELS else load_model(name)
    config: type[Section] = kind.Config
    return config


def model_sections() -> list[str]:
    """The sections of all models, those of phrases last."""
    return [*model_names(), *PHRASE_MODELS]


@cache
def params_type(models: tuple[str, ...]) -> type[CommonParams]:
    """The type of params.yaml in which the sections of some models are checked.

    Args:
        models: Their names, sorted. A section of another model is any mapping: a stage that runs
            no model imports none, and check_params has checked them all.

    Raises:
        WorkbenchError: A model has the name of another section.
    """
    taken = sorted(set(model_names()) & {*CommonParams.model_fields, *PHRASE_MODELS})
    if taken:
        raise WorkbenchError(f"models/{taken[0]}: {taken[0]} is a section of params.yaml already")
    fields: dict[str, Any] = {}
    for name in model_sections():
        if name in models:
            config = model_config(name)
            fields[name] = (config, config())
        else:
            fields[name] = (dict[str, Any], {})
    return create_model("Params", __base__=CommonParams, **fields)


def whole_type() -> type[CommonParams]:
    """The type of params.yaml in which everything is checked."""
    return params_type(tuple(model_sections()))


def inherited_keys(kind: type[CommonParams]) -> dict[str, set[str]]:
    """By section the keys of the section `training` that its own `training` may have."""
    return {
        name: CommonTraining.model_fields.keys() & type(section.training).model_fields.keys()
        for name, section in kind.model_construct()
        if isinstance(getattr(section, "training", None), SharedTraining)
    }


def default_values(kind: type[CommonParams] | None = None) -> dict[str, Any]:
    """Every key with its default, as params.yaml writes it.

    Args:
        kind: The sections; None for all of them.

    Returns:
        In the `training` of a model stand the keys that its type sets, first those of this model
        alone.
    """
    kind = kind or whole_type()
    whole = kind.model_construct()
    values: dict[str, Any] = whole.model_dump(mode="json", context=AS_WRITTEN)
    for name, inherited in inherited_keys(kind).items():
        training = values[name]["training"]
        order = sorted(training, key=lambda key: key in inherited)
        fields = getattr(whole, name).training.model_fields_set
        values[name]["training"] = {key: training[key] for key in order if key in fields}
    return values


def with_defaults(
    values: Mapping[str, Any], kind: type[CommonParams] | None = None
) -> dict[str, Any]:
    """The sections of a params.yaml with what they leave out.

    Args:
        values: The content of the file.
        kind: The sections that are checked; None for all.

    Returns:
        The values with the defaults of their keys and, in the `training` of every model, the keys
        of the section `training` that it does not have itself.
    """
    kind = kind or whole_type()
    whole = dict(values)
    for name, default in default_values(kind).items():
        section = values.get(name)
        if isinstance(section, Mapping) and isinstance(default, Mapping) and name not in NAMED:
            whole[name] = merge(default, section)
    shared = whole.get("training")
    for name, keys in inherited_keys(kind).items():
        section = whole.get(name)
        if isinstance(section, Mapping) and isinstance(shared, Mapping):
            common = {key: value for key, value in shared.items() if key in keys}
            whole[name] = merge({"training": common}, section)
    return whole


def load_params(
    path: Path | str = "params.yaml", models: Collection[str] | None = ()
) -> CommonParams:
    """Read and validate a params.yaml.

    Args:
        path: Of the file.
        models: Those whose sections are read; None for all. Each is imported, and torch with it.
            A section of another model stays as the file has it: check_params has checked all.

    Returns:
        The settings, with the defaults of all keys that the file leaves out.

    Raises:
        WorkbenchError: Names every wrong key and its value.
    """
    kind = whole_type() if models is None else params_type(tuple(sorted(models)))
    values = read_yaml(Path(path))
    EDITS.remember(values)
    problems = list(find_problems(values, kind))
    if problems:
        text = "\n  ".join([f"{path}: {counted(len(problems), 'problem')}", *problems])
        raise WorkbenchError(text, "" if in_queued_run() else UNDO)
    return kind.model_validate(with_defaults(values, kind))


def run_of(params: CommonParams) -> "Run":
    """What all models of a run share, of its params.yaml."""
    from models.base import Run

    return Run(params.loss, params.ranking.model_dump(), params.seed)


def load_for_queries() -> CommonParams:
    """The params.yaml here, and its number of threads set: for what runs a model or ranks."""
    params = load_params()
    set_threads(params.runtime.threads)
    return params


def find_problems(values: dict[str, Any], kind: type[CommonParams] | None = None) -> Iterator[str]:
    """Yield one line per problem: first of single keys, then of combinations that can be judged.

    Args:
        values: The content of a params.yaml.
        kind: The sections that are checked; None for all.

    Yields:
        Lines such as `seed = -1: must be greater than or equal to 0`; none for a good file.
    """
    kind = kind or whole_type()
    try:
        kind.model_validate(with_defaults(values, kind))
    except ValidationError as error:
        every = error.errors()
        # a wrong key of the section `training` is wrong in every section that takes it over
        common = {details["loc"] for details in every if details["loc"][:1] == ("training",)}
        yield from (describe(details) for details in every if details["loc"][1:] not in common)


def describe(detail: ErrorDetails) -> str:
    """One line for one pydantic error: key, value, what is allowed."""
    location = detail["loc"]
    kind = detail["type"]
    text = detail["msg"]
    key = ".".join(str(part) for part in location)
    if kind == WRONG_WHOLE:
        return f"{key}: {text}"
    if kind == "missing":
        return f"{key}: missing; an item of a list has all its keys"
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _siblings(location[:-1]), n=1)
        text = f"unknown key; did you mean {near[0]}?" if near else "unknown key"
    elif kind == "literal_error":
        expected = detail["ctx"]["expected"].replace("'", "").replace(" or ", ", ")
        text = f"allowed are {expected}"
    elif kind in ("string_too_short", "too_short"):
        text = "must not be empty"
    elif kind in ("model_type", "model_attributes_type"):
        text = f"must be a section with keys {', '.join(_siblings(location))}"
    elif kind in TYPES:
        text = f"must be {TYPES[kind]}{_way_out(kind, detail['input'], _may_be_null(location))}"
    elif kind != WRONG_VALUE:
        text = text.replace("Input should be", "must be").replace("Input", "value")
    return f"{key} = {_brief(detail['input'])}: {text}"


def _way_out(kind: str, value: Any, may_be_null: bool) -> str:
    """What to write in place of a value of the wrong type, where that can be seen from the value.

    Args:
        kind: One of TYPES.
        value: The value in params.yaml.
        may_be_null: Whether the key may also be null.

    Returns:
        The end of a sentence, which may be empty.
    """
    if value is None:
        return ", not null"
    if may_be_null and value in ("None", "none", "NONE", "nil", ""):
        return " or null: write null"
    if TYPES[kind] == "a list" and re.fullmatch(r"[\w./+-]+", str(value)):
        return f": write [{plain_text(value)}]"
    if TYPES[kind] == "a text" and isinstance(value, int | float):
        return f": write '{plain_text(value)}', in quotes"
    if TYPES[kind] not in ("a number", "a whole number") or isinstance(value, bool):
        return ""
    with suppress(ValueError, TypeError, OverflowError):  # no number at all
        point = value.replace(",", ".") if isinstance(value, str) else value
        number = float(point)
        if TYPES[kind] == "a number":
            return f": write {point}, without quotes"
        if number == int(number):
            return f": write {int(number)}" + ", without quotes" * isinstance(value, str)
    return ""


def _brief(value: Any) -> str:
    """A value for a message; cut, because aliases let a small file stand for a huge value."""
    short = reprlib.Repr()
    short.maxlevel = 3
    short.maxstring = 240
    short.maxother = 120
    return short.repr(value)


def _siblings(location: tuple[int | str, ...]) -> list[str]:
    """The keys of the section at a place."""
    return list(getattr(_type_at(location), "model_fields", {}))


def _may_be_null(location: tuple[int | str, ...]) -> bool:
    """Whether null is among what a key allows."""
    return type(None) in get_args(_type_at(location))


def _type_at(location: tuple[int | str, ...]) -> Any:
    """The type of the section or key at a place, None where it is not one of a section."""
    section: Any = whole_type()
    for part in location:
        if get_origin(section) is dict:  # a section whose keys are names that the user chose
            section = get_args(section)[1]
        else:
            field = getattr(section, "model_fields", {}).get(part)
            section = field.annotation if field else None
    return section
