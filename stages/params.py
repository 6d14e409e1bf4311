"""params.yaml as typed, frozen sections: the only reader of that file.

Every key is required and no other key is accepted, so that a run is described by what the file
says and a misspelt override never passes unnoticed. All problems are reported at once.
"""

import difflib
import os
import reprlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, ValidationError, create_model
from pydantic_core import ErrorDetails

from models.backbone.params import ImageFeaturesConfig
from models.base.model import Settings
from models.base.registry import config_of, model_names
from models.detector.params import DetectorConfig
from models.dual_path.params import PseudoClassesConfig
from models.losses import LOSSES
from pipeline.evaluation.params import EvaluationConfig, InferenceConfig
from pipeline.readers.params import CorpusConfig, ShapesConfig
from pipeline.regions.params import RegionsConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import UNDO, read_yaml
from pipeline.runtime.section import Name, RuntimeConfig, Section
from pipeline.scores.params import ScoringConfig
from pipeline.sentences.params import SentencesConfig
from pipeline.training.params import RankingConfig
from pipeline.words.params import VocabularyConfig


class CommonParams(Section):
    """What stands in params.yaml beside the models' sections."""

    loss: Literal[tuple(LOSSES)]  # type: ignore[valid-type]
    dataset: Literal["shapes", "karpathy_json", "captions_csv", "cuhk_pedes"]
    raw: Name
    seed: Annotated[int, Field(ge=0, lt=2**32)]
    runtime: RuntimeConfig
    corpus: CorpusConfig
    shapes: ShapesConfig
    vocabulary: VocabularyConfig
    detector: DetectorConfig
    image_features: ImageFeaturesConfig
    regions: RegionsConfig
    sentences: SentencesConfig
    pseudo_classes: PseudoClassesConfig
    ranking: RankingConfig
    scoring: ScoringConfig
    inference: InferenceConfig
    evaluation: EvaluationConfig

    def model(self, name: str) -> Settings:
        """What the file says to a model."""
        return Settings(getattr(self, name), self.loss, self.ranking, self.seed)


# The whole of params.yaml: a section of its own for every model that there is.
CONFIGS: dict[str, Any] = {name: (config_of(name), ...) for name in model_names()}
Params = create_model("Params", __base__=CommonParams, **CONFIGS)


def load_params(path: Path | str = "params.yaml") -> CommonParams:
    """Read and validate a params.yaml.

    Raises WorkbenchError naming every unknown, missing, ill-typed, out-of-range or contradictory
    key with its value and what is allowed.
    """
    values = read_yaml(Path(path))
    problems = list(find_problems(values))
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        raise WorkbenchError(f"{path}: {count}\n  " + "\n  ".join(problems), UNDO)
    return Params.model_validate(values)


def find_problems(values: dict[str, Any]) -> Iterator[str]:
    """Yield one line per problem: first of single keys, then of combinations that can be judged."""
    try:
        Params.model_validate(values)
    except ValidationError as error:
        for detail in error.errors():
            yield describe(detail)
    yield from contradictions(values)


def describe(detail: ErrorDetails) -> str:
    """One line for one pydantic error: key, value, what is allowed."""
    location = list(detail["loc"])
    key = ".".join(str(part) for part in location)
    value, kind, context = detail["input"], detail["type"], detail.get("ctx", {})
    if kind == "extra_forbidden":
        near = difflib.get_close_matches(str(location[-1]), _siblings(location[:-1]), n=1)
        return f"{key} = {_brief(value)}: unknown key" + (
            f"; did you mean {near[0]}?" if near else ""
        )
    if kind == "missing":
        return f"{key}: missing; every key must be given"
    if kind == "literal_error":
        return f"{key} = {_brief(value)}: allowed are {_plain(context['expected'])}"
    if kind in ("string_too_short", "too_short"):
        return f"{key} = {_brief(value)}: must not be empty"
    if kind in ("model_type", "model_attributes_type"):
        return f"{key} = {_brief(value)}: must be a section with keys {_keys(location)}"
    allowed = detail["msg"].replace("Input should be", "must be").replace("Input", "value")
    return f"{key} = {_brief(value)}: {allowed}"


def _brief(value: Any) -> str:
    """A value for a message; cut, because aliases let a small file stand for a huge value."""
    short = reprlib.Repr()
    short.maxlevel, short.maxstring, short.maxother = 3, 120, 120
    return short.repr(value)


def _plain(expected: str) -> str:
    return expected.replace("'", "").replace(" or ", ", ")


def _keys(location: list[Any]) -> str:
    return ", ".join(_siblings(location))


def _siblings(location: list[Any]) -> list[str]:
    section: Any = Params
    for part in location:
        field = section.model_fields.get(part)
        section = field.annotation if field else None
        if not (isinstance(section, type) and issubclass(section, BaseModel)):
            return []
    return list(section.model_fields)


Get = Callable[[str], Any]


def contradictions(values: dict[str, Any]) -> Iterator[str]:
    """Yield one line per combination of keys in a params.yaml that cannot be meant."""

    def get(key: str) -> Any:
        node: Any = values
        for part in key.split("."):
            node = node.get(part) if isinstance(node, dict) else None
        return node

    checks = (
        _raw,
        _vocabulary,
        _word_vectors,
        _detector,
        _image_features,
        _regions,
        _sentences,
        _two_branch,
        _dual_path,
        _dp_rnn,
        _epochs,
    )
    for check in checks:
        yield from check(get)


def _raw(get: Get) -> Iterator[str]:
    raw = get("raw")
    if isinstance(raw, str) and raw and not os.path.exists(raw):
        yield f"raw = {raw!r}: no such file or folder"


def _vocabulary(get: Get) -> Iterator[str]:
    source, vectors = get("vocabulary.source"), get("vocabulary.vectors")
    if source in ("word2vec_bin", "word2vec_text", "gensim"):
        if vectors is None:
            yield f"vocabulary.vectors = None: source {source!r} needs the path of a vector file"
        elif isinstance(vectors, str) and not os.path.isfile(vectors):
            yield f"vocabulary.vectors = {vectors!r}: no such file"
    if source == "train":
        if vectors is not None:
            yield f"vocabulary.vectors = {vectors!r}: must be null when source is 'train'"
        for key in ("known_words_only", "other_cases"):
            if get(f"vocabulary.{key}") is True:
                yield f"vocabulary.{key} = True: needs a source of vectors other than 'train'"
        background = get("vocabulary.background")
        if isinstance(background, int) and background > 0:
            yield (
                f"vocabulary.background = {background}: "
                "needs a source of vectors other than 'train'"
            )


def _word_vectors(get: Get) -> Iterator[str]:
    dim = get("vocabulary.dim")
    for model in ("vse", "dual_path", "scan", "dp_rnn"):
        word_dim, pretrained = get(f"{model}.word_dim"), get(f"{model}.word_vectors")
        if get("vocabulary.source") == "train" and pretrained == "pretrained" and word_dim != dim:
            yield (
                f"{model}.word_dim = {word_dim!r}: must equal vocabulary.dim = {dim!r} "
                f"when {model}.word_vectors is 'pretrained'"
            )


def _detector(get: Get) -> Iterator[str]:
    weights, dataset = get("detector.weights"), get("dataset")
    architecture, names = get("detector.architecture"), get("detector.names")
    if weights == "train" and dataset in ("karpathy_json", "captions_csv", "cuhk_pedes"):
        yield (
            f"detector.weights = 'train': the dataset {dataset!r} has no boxes to learn from; "
            "set it to random or to the path of a detector's weights"
        )
    if weights == "train" and architecture == "c4_resnet101":
        yield (
            "detector.weights = 'train': the c4_resnet101 is not trained here; "
            "give the path of its weights, or train an fpn_resnet18"
        )
    named = weights in ("train", "random", "") or not isinstance(weights, str)
    if not named and not os.path.isfile(weights):
        yield (
            f"detector.weights = {weights!r}: no such file; "
            "allowed are train, random or the path of a detector's weights"
        )
    layers, anchors = get("detector.layers"), get("detector.anchors")
    if isinstance(anchors, list) and isinstance(layers, int) and len(anchors) != layers:
        yield (
            f"detector.anchors: {len(anchors)} lists for detector.layers = {layers}; "
            "every layer needs a list of anchor sides"
        )
    if isinstance(names, str) and names and not os.path.isdir(names):
        yield f"detector.names = {names!r}: no such folder"


def _image_features(get: Get) -> Iterator[str]:
    weights, model = get("image_features.weights"), get("image_features.model")
    named = weights in ("random", "imagenet", "detector", "") or not isinstance(weights, str)
    if not named and not os.path.isfile(weights):
        yield (
            f"image_features.weights = {weights!r}: no such file; "
            "allowed are detector, random, imagenet or the path of a state dict"
        )
    architecture = get("detector.architecture")
    if weights == "detector" and f"fpn_{model}" != architecture is not None:
        yield (
            f"image_features.weights = 'detector': a {architecture!r} does not hold a {model!r}; "
            "give both the same ResNet, as fpn_resnet18 and resnet18, or choose other weights"
        )


def _regions(get: Get) -> Iterator[str]:
    source, path = get("regions.source"), get("regions.path")
    if source == "detector" and path is not None:
        yield f"regions.path = {path!r}: must be null when source is 'detector'"
    if source in ("tsv", "scan_npy", "butd_h5"):
        if path is None:
            yield f"regions.path = None: source {source!r} needs the path of its files"
        elif isinstance(path, str) and not os.path.exists(path):
            yield f"regions.path = {path!r}: no such file or folder"
    low, high = get("regions.min"), get("regions.max")
    if type(low) is int and type(high) is int and low > high:
        yield f"regions.min = {low}: must not exceed regions.max = {high}"


def _sentences(get: Get) -> Iterator[str]:
    encoding = get("sentences.encoding")
    stop_words, wordnet = get("sentences.tfidf.stop_words"), get("sentences.tfidf.wordnet")
    named = stop_words in ("function_words", "none", "") or not isinstance(stop_words, str)
    if not named and not os.path.isfile(stop_words):
        yield (
            f"sentences.tfidf.stop_words = {stop_words!r}: no such file; "
            "allowed are function_words, none or the path of a list"
        )
    if isinstance(wordnet, str) and wordnet and not os.path.isdir(wordnet):
        yield f"sentences.tfidf.wordnet = {wordnet!r}: no such folder"
    word_dim = get("vocabulary.dim") if get("vocabulary.source") == "train" else None
    if encoding == "mean_vector":
        yield from _too_many("sentences.mean_vector.pca", get, word_dim, "vocabulary.dim")
    if encoding == "tfidf":
        terms = get("sentences.tfidf.terms")
        yield from _too_many("sentences.tfidf.pca", get, terms, "sentences.tfidf.terms")
    if encoding == "fisher":
        yield from _too_many("sentences.fisher.ica", get, word_dim, "vocabulary.dim")
        ica, centres = get("sentences.fisher.ica"), get("sentences.fisher.centres")
        dim = word_dim if ica == "none" else ica
        if type(dim) is int and type(centres) is int:
            width = 2 * centres * dim
            made_of = "2 x centres x width of a word vector"
            yield from _too_many("sentences.fisher.pca", get, width, made_of)


def _too_many(key: str, get: Get, width: Any, origin: str) -> Iterator[str]:
    wanted = get(key)
    if type(wanted) is int and type(width) is int and wanted > width >= 1:
        yield f"{key} = {wanted}: must not exceed {width}, that is {origin}"


def _two_branch(get: Get) -> Iterator[str]:
    weights = get("two_branch.weights")
    if isinstance(weights, dict) and weights and all(value == 0 for value in weights.values()):
        yield "two_branch.weights: all are 0; at least one term must have another weight"


def _dual_path(get: Get) -> Iterator[str]:
    resize, crop = get("dual_path.resize"), get("dual_path.crop")
    if type(resize) is int and type(crop) is int and crop > resize:
        yield f"dual_path.crop = {crop}: must not exceed dual_path.resize = {resize}"
    phases = get("dual_path.phases")
    listed = phases if isinstance(phases, list | tuple) else []
    run = [p for p in listed if isinstance(p, dict) and p.get("epochs") != 0]
    if listed and not run:
        yield "dual_path.phases: none has epochs; at least one must"
    for number, phase in enumerate(listed):
        yield from _phase(f"dual_path.phases.{number}", phase)
    if run and "image_cnn" in _parts(run[0]):
        yield (
            f"dual_path.phases: {run[0].get('name')!r} comes first and trains image_cnn while the "
            "other parts are random; begin with a phase that leaves image_cnn out"
        )


def _phase(key: str, phase: Any) -> Iterator[str]:
    if not isinstance(phase, dict):
        return
    if phase.get("images") == "features" and "image_cnn" in _parts(phase):
        yield f"{key}.train: image_cnn can be trained on images = 'pixels' only"
    weights = phase.get("weights")
    if isinstance(weights, dict) and weights and all(value == 0 for value in weights.values()):
        yield f"{key}.weights: all are 0; at least one term must have another weight"


def _parts(phase: dict[str, Any]) -> list[Any]:
    parts = phase.get("train")
    return list(parts) if isinstance(parts, list | tuple) else []


def _dp_rnn(get: Get) -> Iterator[str]:
    epochs = {name: get(f"dp_rnn.training.epochs.{name}") for name in ("recurrent", "all")}
    if get("dp_rnn.recurrent") is True and all(value == 0 for value in epochs.values()):
        yield (
            "dp_rnn.training.epochs: recurrent and all are 0, but dp_rnn.recurrent = True; give "
            "one of them epochs or set dp_rnn.recurrent to false"
        )
    matching = get("dp_rnn.training.epochs.matching")
    if get("dp_rnn.recurrent") is False and matching == 0 == epochs["all"]:
        yield "dp_rnn.training.epochs: matching and all are 0; one of them must have epochs"


def _epochs(get: Get) -> Iterator[str]:
    for model in model_names():
        training = f"{model}.training"
        warmup, epochs = get(f"{training}.warmup_epochs"), get(f"{training}.epochs")
        if isinstance(warmup, int) and isinstance(epochs, int) and warmup >= epochs:
            yield f"{training}.warmup_epochs = {warmup}: must be below {training}.epochs = {epochs}"
