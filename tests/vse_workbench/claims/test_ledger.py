"""Claims and settings: the params.yaml of a setting, and what is wrong with a file, by name."""

import pytest
from claim_cases import content, ledger
from ruamel.yaml import YAML

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.ledger import (
    Ledger,
    leaves,
    read_ledger,
    resolved,
    setting_digest,
    setting_params,
)

PHASES = [{"epochs": 1, "weights": {"a": 0.5}}, {"epochs": 2, "weights": {"a": 1.0}}]
DEFAULTS = {
    "seed": 0,
    "loss": "sum_margin",
    "vse": {"dim": 4, "phases": PHASES},
    "inference": {"criteria": ["naive"]},
}


@pytest.fixture
def recipes(tmp_path):
    (tmp_path / "paper.yaml").write_text("loss: max_margin\nvse: {dim: 99}\n")
    return tmp_path


def written(tmp_path, values):
    path = tmp_path / "claims.yaml"
    with path.open("w") as file:
        YAML(typ="safe").dump(values, file)
    return path


def with_settings(settings, dataset=None):
    values = content()
    values["settings"] |= settings
    values["datasets"]["world"] |= {"set": dataset or {}}
    return Ledger.model_validate(values)


def test_a_file_is_read_and_settings_take_what_their_bases_have(tmp_path):
    found = read_ledger(written(tmp_path, content()))
    assert found == ledger()
    setting = resolved(found, "csls")
    assert (setting.model, setting.criterion) == ("vse", "csls")
    assert setting.set == {"vse.dim": 16, "inference.criteria": ["csls"]}
    assert resolved(found, "wide").criterion == "naive"


def test_params_are_the_defaults_the_recipe_the_dataset_and_the_setting_in_this_order(recipes):
    claims = with_settings(
        {"published": {"model": "vse", "recipe": "paper", "set": {"vse.phases.1.weights.a": 7}}},
        {"vse.phases.0.epochs": 5, "loss": "infonce"},
    )
    found = setting_params(claims, "published", "world", DEFAULTS, recipes)
    assert found["loss"] == "infonce"
    assert found["vse"]["dim"] == 99
    assert found["vse"]["phases"] == [
        {"epochs": 5, "weights": {"a": 0.5}},
        {"epochs": 2, "weights": {"a": 7}},
    ]


def test_a_dataset_has_a_recipe_and_values_that_win_over_those_of_settings(recipes):
    claims = with_settings({"wider": {"base": "narrow", "set": {"vse.phases.0.epochs": 9}}})
    world = claims.datasets["world"]
    digests = {setting_digest(claims, "wider", "world")}
    world = world.model_copy(update={"recipe": "paper"})
    claims.datasets["world"] = world
    found = setting_params(claims, "wider", "world", DEFAULTS, recipes)
    assert (found["loss"], found["vse"]["dim"]) == ("max_margin", 8)
    assert found["vse"]["phases"][0]["epochs"] == 9
    digests.add(setting_digest(claims, "wider", "world"))
    over = {"all": {"vse.phases.0.epochs": 2, "seed": 5}, "wide": {"seed": 6}}
    claims.datasets["world"] = world.model_copy(update={"over": over})
    found = setting_params(claims, "wider", "world", DEFAULTS, recipes)
    assert (found["vse"]["phases"][0]["epochs"], found["seed"]) == (2, 5)
    assert setting_params(claims, "wide", "world", DEFAULTS, recipes)["seed"] == 6
    digests.add(setting_digest(claims, "wider", "world"))
    over["wider"] = {"seed": 7}
    assert len(digests | {setting_digest(claims, "wider", "world")}) == 4


@pytest.mark.parametrize("key", ["vse.width", "vse.phases.2.epochs", "loss.k", "vse.phases.x", "a"])
def test_a_key_that_params_yaml_does_not_have_is_named(recipes, key):
    claims = with_settings({"odd": {"model": "vse", "set": {key: 1}}})
    with pytest.raises(WorkbenchError, match=f"setting odd on world: .* no key {key}"):
        setting_params(claims, "odd", "world", DEFAULTS, recipes)


def test_a_digest_changes_with_what_the_file_says_of_the_setting():
    def digest(dim, dataset):
        claims = with_settings({"wide": {"base": "narrow", "set": {"vse.dim": dim}}}, dataset)
        return setting_digest(claims, "wide", "world")

    assert digest(16, {}) == setting_digest(ledger(), "wide", "world")
    assert len({digest(16, {}), digest(17, {}), digest(16, {"raw": "x"})}) == 3


def test_leaves_go_into_lists_of_mappings_alone():
    values = {"a": {"b": [1, 2]}, "c": [{"d": None}, {"d": []}]}
    assert dict(leaves(values)) == {"a.b": [1, 2], "c.0.d": None, "c.1.d": []}


@pytest.mark.parametrize(
    ("where", "values", "told"),
    [
        ("claims.wider", {"first": "nothing"}, "claims.wider: first 'nothing' is not in"),
        ("claims.wider", {"measure": "speed"}, "claims.wider: measure 'speed' is not in"),
        ("claims.wider", {"datasets": ["moon"]}, "claims.wider: dataset 'moon' is not in"),
        ("claims.wider", {"within": 1.0, "at_most": 1.0}, "claims.wider: within beside at_most"),
        ("claims.wider", {"within": -1.0}, "claims.wider.within: "),
        ("claims.wider", {"published": {"on": "x", "first": [1.0], "second": []}},
         r"claims.wider: published.second: 0 figures; measure rsum has 1"),
        ("claims.wider", {"published": {"on": "x", "first": [float("nan")], "second": [1.0]}},
         "claims.wider.published.first.0: "),
        ("measures", {"odd": ["i2t.r2"]}, "measures.odd: i2t.r2; allowed are i2t.r1, "),
        ("measures", {"none": []}, "measures.none: no figures"),
        ("datasets", {"world": {"title": "w", "over": {"moon": {}}}}, "world.over: moon: no such"),
        ("settings", {"odd": {"set": {}}}, "settings.odd: no model"),
        ("settings", {"odd": {"base": "moon"}}, "settings.odd: base 'moon' is no setting"),
        ("settings", {"a": {"base": "b"}, "b": {"base": "a"}}, "settings.a: its bases run in a"),
        ("settings", {"a": {"base": "wide", "recipe": "x"}}, "settings.a: a recipe beside a base"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_named(tmp_path, where, values, told):
    whole = content()
    node = whole
    for part in where.split("."):
        node = node[part]
    node |= values
    with pytest.raises(WorkbenchError, match=told):
        read_ledger(written(tmp_path, whole))
