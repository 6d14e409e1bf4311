"""Claims and settings: the params.yaml of a setting, and what is wrong with a file, by name."""

import pytest
from claim_cases import content, ledger
from ruamel.yaml import YAML

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.recipes import leaves
from vse_workbench.claims.ledger import (
    Ledger,
    Point,
    judging_seeds,
    read_ledger,
    resolved_setting,
    search_on,
    seeds_of,
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
    setting = resolved_setting(found, "csls")
    assert (setting.model, setting.criterion) == ("vse", "csls")
    assert setting.set == {"vse.dim": 16}
    assert resolved_setting(found, "wide").criterion == "naive"


def test_seeds_are_those_of_the_setting_else_of_the_dataset_else_of_the_file():
    values = content()
    values["settings"]["slow"] = {"base": "narrow", "seeds": [4, 5]}
    values["datasets"]["moon"] = {"title": "the moon", "seeds": [11, 12]}
    found = Ledger.model_validate(values)
    assert seeds_of(found, "narrow", "world") == [1, 2, 3]
    assert seeds_of(found, "narrow", "moon") == [11, 12]
    assert seeds_of(found, "slow", "moon") == [4, 5]


def test_params_are_the_defaults_the_recipe_the_dataset_and_the_setting_in_this_order(recipes):
    claims = with_settings(
        {"published": {"model": "vse", "set": {"vse.phases.1.weights.a": 7}}},
        {"vse.phases.0.epochs": 5, "loss": "infonce"},
    )
    claims.datasets["world"] = claims.datasets["world"].model_copy(update={"recipe": "paper"})
    found = setting_params(claims, "published", "world", DEFAULTS, recipes)
    assert found["loss"] == "infonce"
    assert found["vse"]["dim"] == 99
    assert found["vse"]["phases"] == [
        {"epochs": 5, "weights": {"a": 0.5}},
        {"epochs": 2, "weights": {"a": 7}},
    ]


def test_a_dataset_has_a_recipe_and_values_that_win_over_those_of_settings(recipes):
    claims = with_settings({"wider": {"base": "narrow", "set": {"vse.phases.0.epochs": 9}}})
    world = claims.datasets["world"].model_copy(update={"recipe": "paper"})
    claims.datasets["world"] = world
    found = setting_params(claims, "wider", "world", DEFAULTS, recipes)
    assert (found["loss"], found["vse"]["dim"]) == ("max_margin", 8)
    assert found["vse"]["phases"][0]["epochs"] == 9
    over = {"all": {"vse.phases.0.epochs": 2, "seed": 5}, "wide": {"seed": 6}}
    claims.datasets["world"] = world.model_copy(update={"over": over})
    found = setting_params(claims, "wider", "world", DEFAULTS, recipes)
    assert (found["vse"]["phases"][0]["epochs"], found["seed"]) == (2, 5)
    assert setting_params(claims, "wide", "world", DEFAULTS, recipes)["seed"] == 6


def test_a_factor_multiplies_the_keys_of_the_search_of_a_model(recipes):
    claims = with_settings({"fast": {"model": "two_branch", "set": {"two_branch.lr": 0.001}}})
    defaults = DEFAULTS | {"two_branch": {"lr": 0.1}}
    found = setting_params(claims, "fast", "world", defaults, recipes, Point(0.3))
    assert found["two_branch"] == {"lr": 0.0003}
    found = setting_params(claims, "narrow", "world", defaults, recipes, Point(0.3))
    assert found["vse"]["dim"] == 8


def test_a_search_of_a_dataset_is_that_of_the_models_or_settings_it_names(tmp_path):
    own = {"factors": [1.0, 2.0], "keys": {"vse": ["vse.training.lr"]}}
    values = content()
    values["settings"]["other"] = {"model": "two_branch"}
    claims = Ledger.model_validate(values)
    assert search_on(claims, "narrow", "world") == claims.search
    values["datasets"]["world"]["search"] = own
    claims = Ledger.model_validate(values)
    assert search_on(claims, "narrow", "world").factors == [1.0, 2.0]
    assert search_on(claims, "other", "world") == claims.search
    own["settings"] = {"vse": ["wide"]}
    claims = Ledger.model_validate(values)
    assert search_on(claims, "wide", "world").factors == [1.0, 2.0]
    assert search_on(claims, "narrow", "world") == claims.search
    own["settings"] = {"two_branch": ["other"]}
    claims = Ledger.model_validate(values)
    assert search_on(claims, "narrow", "world").factors == [1.0, 2.0]
    own["settings"] = {"vse": ["widest"]}
    with pytest.raises(WorkbenchError, match="widest: no such setting"):
        read_ledger(written(tmp_path, values))


def test_a_regularisation_of_the_search_takes_the_place_of_the_settings_own(recipes):
    values = content()
    values["search"]["regularisation"] = {"two_branch": {"key": "two_branch.drop", "values": [0.7]}}
    values["settings"]["fast"] = {"model": "two_branch", "set": {"two_branch.lr": 0.1}}
    defaults = DEFAULTS | {"two_branch": {"lr": 1.0, "drop": 0.5}}
    claims = Ledger.model_validate(values)
    for number, drop in enumerate((0.5, 0.7)):
        point = Point(3.0, number)
        found = setting_params(claims, "fast", "world", defaults, recipes, point)
        assert found["two_branch"] == {"lr": 0.3, "drop": drop}


def test_a_claim_is_judged_by_the_seeds_of_both_its_settings():
    claims = with_settings({"slow": {"base": "narrow", "seeds": [1, 3]}})
    claim = claims.claims["wider"]
    assert judging_seeds(claims, claim, "world") == [1, 2, 3]
    assert judging_seeds(claims, claim.model_copy(update={"second": "slow"}), "world") == [1, 3]


@pytest.mark.parametrize("key", ["vse.width", "vse.phases.2.epochs", "loss.k", "vse.phases.x", "a"])
def test_a_key_that_params_yaml_does_not_have_is_named(recipes, key):
    claims = with_settings({"odd": {"model": "vse", "set": {key: 1}}})
    with pytest.raises(WorkbenchError, match=f"setting odd on world: .* no key {key}"):
        setting_params(claims, "odd", "world", DEFAULTS, recipes)


def test_leaves_go_into_lists_of_mappings_alone():
    values = {"a": {"b": [1, 2]}, "c": [{"d": None}, {"d": []}]}
    assert dict(leaves(values)) == {"a.b": [1, 2], "c.0.d": None, "c.1.d": []}


@pytest.mark.parametrize(
    ("where", "values", "told"),
    [
        ("claims.wider", {"first": "nothing"}, "claims.wider: first 'nothing' is not in"),
        ("claims.wider", {"measure": "speed"}, "claims.wider: measure 'speed' is not in"),
        ("claims.wider", {"datasets": ["moon"]}, "claims.wider: dataset 'moon' is not in"),
        ("claims.wider", {"within": -1.0}, "claims.wider.within: "),
        ("claims.wider", {"within": 1.0, "at_least": 2.0}, "claims.wider: at_least, within: one"),
        (
            "claims.wider",
            {"published": {"on": "x", "first": [1.0, 2.0], "second": []}},
            r"claims.wider: published.second: 0 figures; measure r1 has 2",
        ),
        (
            "claims.wider",
            {"published": {"on": "x", "first": [float("nan"), 1], "second": [1, 1]}},
            "claims.wider.published.first.0: ",
        ),
        (
            "settings",
            {"wide": {"base": "narrow", "seeds": [1, 9]}},
            "wider on world: seed 1 alone is",
        ),
        ("settings", {"odd": {"model": "vse", "seeds": [0, 1]}}, "settings.odd.seeds.0: "),
        (
            "settings",
            {
                "wide": {"base": "narrow", "seeds": [1, 2, 901]},
                "narrow": {"model": "vse", "seeds": [1, 2, 901]},
            },
            "wider on world: seed 901 is of searches",
        ),
        ("measures", {"odd": ["i2t.r2"]}, "measures.odd.0: allowed are i2t.r1, "),
        ("measures", {"none": []}, "measures.none: List should have at least 1 item"),
        ("datasets", {"world": {"title": "w", "over": {"moon": {}}}}, "world.over: moon: no such"),
        ("settings", {"odd": {"set": {}}}, "settings.odd: no model"),
        ("settings", {"odd": {"base": "moon"}}, "settings.odd: base 'moon' is no setting"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(tmp_path, where, values, told):
    whole = content()
    node = whole
    for part in where.split("."):
        node = node[part]
    node |= values
    with pytest.raises(WorkbenchError, match=told):
        read_ledger(written(tmp_path, whole))
