"""claims.yaml: what the papers claim, the settings compared, and the params.yaml of each."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, NamedTuple

from pydantic import Field, ValidationError

from pipeline.evaluation.rank_file import COLUMNS
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.recipes import leaves, merge, read_recipe
from pipeline.runtime.section import Count, Name, Positive, Section, one_of
from pipeline.runtime.text import Values
from pipeline.runtime.yaml_text import read_yaml

# of models of retrieval, what their metrics files have beside, and of models of phrases
BESIDE = (
    "separation",
    "correlation",
    "in_shortlist.i2t",
    "in_shortlist.t2i",
    "hubs.i2t.none",
    "hubs.i2t.ten",
    "hubs.t2i.none",
    "hubs.t2i.ten",
)
PHRASE_FIGURES = ("phrases.r1", "phrases.r5", "phrases.r10", "phrases.map")
FEATURES = "features"  # as a criterion: figures of what a model is given
FIGURES = (*(".".join(column.keys) for column in COLUMNS), *BESIDE, *PHRASE_FIGURES)
SIGNED = (*FIGURES, *(f"-{figure}" for figure in FIGURES))
ALL = "all"  # in place of the name of a setting
SEARCH_SEEDS = (
    0,
    901,
    902,
)  # of searches, which use the first of them or all; none counts in a verdict

Premises = dict[str, int | str]  # a number: at least so many; a word: the same
Figure = Annotated[float, Field(allow_inf_nan=False)]


class Point(NamedTuple):
    """What a search has changed of a setting."""

    factor: float = 1.0  # of the keys of the search
    regularisation: int = 0  # the number of a value of its regularisation, 0: the setting's own


AS_IT_IS = Point()


class Regularisation(Section):
    """A key, and the values that it has besides the setting's own."""

    key: Name
    values: Annotated[list[Figure], Field(min_length=1)]


class Search(Section):
    """What every setting is given on validation, with SEARCH_SEEDS, before its seeds: first the
    factor, with the setting's own regularisation, then the regularisation with that factor.

    seeds: how many of SEARCH_SEEDS; the mean of their validation decides.
    factors: all that may be tried.
    first: those that are tried in any case, none: all. The search goes on while the best factor is
        the first or the last of the tried ones and `factors` has a next one.
    keys: by model what is multiplied; a model without any has no search.
    regularisation: by model.
    settings: by model those alone that a dataset's search is of; of other models it is of all.
    """

    factors: Annotated[list[Positive], Field(min_length=1)]
    keys: dict[str, list[Name]]
    seeds: Annotated[int, Field(ge=1, le=len(SEARCH_SEEDS))] = 1
    first: list[Positive] = Field(default_factory=list)
    regularisation: dict[str, Regularisation] = Field(default_factory=dict)
    settings: dict[str, list[Name]] = Field(default_factory=dict)


class Dataset(Section):
    """Where claims are tried: a recipe laid over the defaults, `set` over that. `seeds` are those
    of the file where it has none of its own; `search` is of the models in its `keys`, or of its
    `settings` alone, the search of the file of all others."""

    title: Name
    drawn: bool = False  # scenes that a program drew, not photographs
    has: Premises = Field(default_factory=dict)
    recipe: Name | None = None
    seeds: list[Count] = Field(default_factory=list)
    search: Search | None = None
    set: Values = Field(default_factory=dict)  # by dotted key
    # by setting or `all`, over its; its own win
    over: dict[str, Values] = Field(default_factory=dict)


class Setting(Section):
    """How a run is made: values over those of `base`, or of the dataset."""

    model: Name = ""  # whose figures count
    criterion: Name = "naive"  # what ranked them, or FEATURES
    base: Name | None = None  # another setting, with all of which this one begins
    has: Premises = Field(default_factory=dict)  # over what the dataset has
    seeds: list[Count] = Field(default_factory=list)  # of this setting, in place of those of all
    note: str = ""  # what a reader of its figures has to know; no base gives it
    set: Values = Field(default_factory=dict)  # by dotted key; numbers: places in a list


class Published(Section):
    """The paper's figures of both settings, one for each of the measure, and their corpus."""

    on: Name
    first: list[Figure]
    second: list[Figure]


class Claim(Section):
    """A claim that the difference of two settings, first minus second, is above 0, or as below."""

    paper: Name  # its short name, as in the recipes
    place: Name  # section and table
    says: Name
    first: Name
    second: Name
    measure: Name
    published: Published | None = None
    at_least: Positive | None = None  # a size that the sentence names: above so many points
    within: Positive | None = None  # small: at most so many points of the measure to each side
    at_most: Positive | None = None  # no gain: below so many points
    needs: Premises = Field(default_factory=dict)  # what a dataset must have, or it is not tried
    datasets: list[Name] = Field(default_factory=list)  # where it is tried
    withdrawn: str = ""  # why it is judged no more

    @property
    def region(self) -> tuple[float, float]:
        """The open interval in which the claim says that the mean difference lies."""
        if self.within is not None:
            return -self.within, self.within
        if self.at_least is not None:
            return self.at_least, math.inf
        return (0.0, math.inf) if self.at_most is None else (-math.inf, self.at_most)


class Ledger(Section):
    """The whole file. measures: name -> figures that are added up, `-` before those taken away;
    seeds: those of every setting, fixed before the first run; caveats: what limits all of it."""

    seeds: Annotated[list[Count], Field(min_length=2)]
    search: Search
    measures: dict[str, Annotated[list[Annotated[str, one_of(SIGNED)]], Field(min_length=1)]]
    datasets: dict[str, Dataset]
    settings: dict[str, Setting]
    claims: dict[str, Claim]
    former_seeds: list[Count] = Field(default_factory=list)  # of rows that stay and count no more
    caveats: list[Name] = Field(default_factory=list)

    def signs(self, claim: Claim) -> dict[str, int]:
        """1 or -1 by figure of a claim's measure: whether it is added or taken away."""
        figures = self.measures[claim.measure]
        return {name.removeprefix("-"): -1 if name.startswith("-") else 1 for name in figures}

    def published(self, claim: Claim) -> list[float]:
        """The paper's measure of first and second setting; [] for a claim without figures."""
        signs = self.signs(claim).values()
        paper = claim.published
        sides = [paper.first, paper.second] if paper else []
        return [sum(s * value for s, value in zip(signs, side, strict=True)) for side in sides]


def read_ledger(path: Path = Path("claims.yaml")) -> Ledger:
    """The claims of a file; WorkbenchError names all that is wrong with it."""
    try:
        ledger = Ledger.model_validate(read_yaml(path))
    except ValidationError as error:
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()]
    else:
        problems = [*_reference_problems(ledger)] or [*_claim_problems(ledger)]
    if problems:
        raise WorkbenchError(f"{path}:\n  " + "\n  ".join(problems))
    return ledger


def resolved_setting(ledger: Ledger, name: str) -> Setting:
    """A setting with all that its bases give it.

    Args:
        ledger: the claims.
        name: of the setting.

    Returns:
        A setting without a base, with a model and a criterion.
    """
    setting = ledger.settings[name]
    base = resolved_setting(ledger, setting.base) if setting.base else Setting()
    fields = {key: getattr(setting, key) for key in setting.model_fields_set - {"base"}}
    fields |= {"set": base.set | setting.set, "has": base.has | setting.has}
    return base.model_copy(update=fields)


def seeds_of(ledger: Ledger, setting: str, dataset: str) -> list[int]:
    """The seeds of a setting on a dataset, fixed before its first run.

    Args:
        ledger: the claims.
        setting: its name.
        dataset: on which it runs.

    Returns:
        Its own, else the dataset's, else those of the file.
    """
    own = resolved_setting(ledger, setting).seeds
    return own or ledger.datasets[dataset].seeds or ledger.seeds


def judging_seeds(ledger: Ledger, claim: Claim, dataset: str) -> list[int]:
    """The seeds that judge a claim: those of both its settings.

    Args:
        ledger: the claims.
        claim: one of them.
        dataset: on which it is tried.

    Returns:
        In the order of the first setting.
    """
    first, second = (seeds_of(ledger, side, dataset) for side in (claim.first, claim.second))
    return [seed for seed in first if seed in second]


def search_on(ledger: Ledger, setting: str, dataset: str) -> Search:
    """The search of a setting on a dataset.

    Args:
        ledger: the claims.
        setting: its name.
        dataset: on which it runs.

    Returns:
        The dataset's own if it has keys of the setting's model and is not of other settings, else
        that of the file.
    """
    own = ledger.datasets[dataset].search
    if own is None:
        return ledger.search
    model = resolved_setting(ledger, setting).model
    is_named = setting in own.settings.get(model, [setting])
    return own if model in own.keys and is_named else ledger.search


def search_seeds_of(ledger: Ledger, setting: str, dataset: str) -> tuple[int, ...]:
    """The seeds of a setting's search on a dataset.

    Args:
        ledger: the claims.
        setting: its name.
        dataset: on which it runs.

    Returns:
        The first of SEARCH_SEEDS, none for a model that has no search.
    """
    model = resolved_setting(ledger, setting).model
    search = search_on(ledger, setting, dataset)
    return SEARCH_SEEDS[: search.seeds] if model in search.keys else ()


def unmet_premises(ledger: Ledger, claim: Claim, dataset: str) -> list[str]:
    """The premises of a claim that a dataset, or a setting on it, lacks. A premise of settings
    holds for those of them that say what they have.

    Args:
        ledger: the claims.
        claim: one of them.
        dataset: where it would be tried.

    Returns:
        A line for each; [] where it can be tried.
    """
    lacking: dict[str, None] = {}
    own = {side: resolved_setting(ledger, side).has for side in (claim.first, claim.second)}
    for key, need in claim.needs.items():
        actuals = {side: has[key] for side, has in own.items() if key in has}
        if len(actuals) < len(own) and (key in ledger.datasets[dataset].has or not actuals):
            actuals[dataset] = ledger.datasets[dataset].has.get(key, "none")
        for name, actual in actuals.items():
            is_number = isinstance(need, int) and isinstance(actual, int)
            if int(actual) < int(need) if is_number else actual != need:
                lacking[f"needs {key} {need}, {name} has {actual}"] = None
    return list(lacking)


def is_tried(ledger: Ledger, claim: Claim, dataset: str) -> bool:
    """Whether runs of a claim count on a dataset: it is not withdrawn, and its premises are met.

    Args:
        ledger: the claims.
        claim: one of them.
        dataset: one of the file's.

    Returns:
        True where they count.
    """
    return not claim.withdrawn and not unmet_premises(ledger, claim, dataset)


def setting_params(
    ledger: Ledger,
    name: str,
    dataset: str,
    defaults: Values,
    recipes: Path,
    point: Point = AS_IT_IS,
) -> Values:
    """The params.yaml of a setting: defaults, the dataset's recipe and values, the setting's, the
    dataset's `over`, what the search has changed.

    Args:
        ledger: the claims.
        name: of the setting.
        dataset: on which it runs.
        defaults: values of every key.
        recipes: the folder of the recipes.
        point: of the search; by default the setting as it is.

    Returns:
        Nested values of every key.

    Raises:
        WorkbenchError: a key that params.yaml does not have.
    """
    setting = resolved_setting(ledger, name)
    where = ledger.datasets[dataset]
    params = copy.deepcopy(dict(defaults))
    if where.recipe is not None:
        params = merge(params, read_recipe(recipes, where.recipe).settings)
    context = f"claims.yaml, setting {name} on {dataset}"
    for values in (where.set, setting.set, where.over.get(ALL, {}), where.over.get(name, {})):
        for key, value in values.items():
            _set_key(params, key, value, context)
    search = search_on(ledger, name, dataset)
    for key in search.keys.get(setting.model, []) if point.factor != 1 else ():
        _set_key(params, key, float(f"{dict(leaves(params))[key] * point.factor:.6g}"), context)
    if point.regularisation:
        own = search.regularisation[setting.model]
        _set_key(params, own.key, own.values[point.regularisation - 1], context)
    return params


def _set_key(params: Values, key: str, value: Any, where: str) -> None:
    node: Any = params
    section, _, shared = key.partition(".training.")
    try:
        if shared in params.get("training", ()):  # the model's own value of it
            params[section]["training"].setdefault(shared)
        for part in key.split("."):
            holder = node
            index = int(part) if isinstance(node, list) else part
            node = holder[index]
        holder[index] = value
    except (KeyError, IndexError, TypeError, ValueError):
        raise WorkbenchError(f"{where}: params.yaml has no key {key}") from None


def _reference_problems(ledger: Ledger) -> Iterator[str]:
    for name, setting in ledger.settings.items():
        if setting.base not in (None, *ledger.settings):
            yield f"settings.{name}: base {setting.base!r} is no setting"
        if not (setting.base or setting.model):
            yield f"settings.{name}: no model"
    for dataset, where in ledger.datasets.items():
        strange = where.over.keys() - ledger.settings.keys() - {ALL}
        if strange:
            yield f"datasets.{dataset}.over: {listing(sorted(strange))}: no such setting"
        searched = where.search.settings if where.search else {}
        for model, settings in searched.items():
            unknown = [name for name in settings if name not in ledger.settings]
            if unknown:
                text = f"{listing(unknown)}: no such setting"
                yield f"datasets.{dataset}.search.settings.{model}: {text}"
    for name, claim in ledger.claims.items():
        named = [("first", claim.first, "settings"), ("second", claim.second, "settings")]
        named += [("measure", claim.measure, "measures")]
        named += [("dataset", dataset, "datasets") for dataset in claim.datasets]
        for key, value, section in named:
            if value not in getattr(ledger, section):
                yield f"claims.{name}: {key} {value!r} is not in claims.yaml"


def _claim_problems(ledger: Ledger) -> Iterator[str]:
    """What is wrong with claims whose settings, measures and datasets are there."""
    for name, claim in ledger.claims.items():
        for dataset in claim.datasets:
            if not is_tried(ledger, claim, dataset):
                continue
            seeds = judging_seeds(ledger, claim, dataset)
            if len(seeds) < 2:
                alone = listing(seeds) or "none"
                text = f"seed {alone} alone is of both settings; an interval needs two"
                yield f"claims.{name} on {dataset}: {text}"
            if set(seeds) & set(SEARCH_SEEDS):
                spent = listing(sorted(set(seeds) & set(SEARCH_SEEDS)))
                yield f"claims.{name} on {dataset}: seed {spent} is of searches, take another one"
        sizes = [key for key in ("at_least", "within", "at_most") if getattr(claim, key)]
        if len(sizes) > 1:
            yield f"claims.{name}: {listing(sizes)}: one of them at most"
        wanted = len(ledger.measures[claim.measure])
        for side in ("first", "second") if claim.published else ():
            count = len(getattr(claim.published, side))
            if count != wanted:
                text = f"{count} figures; measure {claim.measure} has {wanted}"
                yield f"claims.{name}: published.{side}: {text}"
