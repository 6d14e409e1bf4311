from pathlib import Path

import pytest

from pipeline.errors import WorkbenchError
from pipeline.params import load_params, read_yaml
from pipeline.recipes import find_recipe, merge, overlay, parse_settings

ROOT = Path(__file__).resolve().parents[2]
RECIPES = sorted(path.stem for path in (ROOT / "recipes").glob("*.yaml"))


@pytest.fixture(autouse=True)
def _in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def comments(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


def flat(node, prefix=""):
    for key, value in node.items():
        if isinstance(value, dict):
            yield from flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def test_empty_overlay_keeps_every_byte():
    text, lines = overlay(ROOT / "params.yaml", {})
    assert text == (ROOT / "params.yaml").read_text()
    assert lines == []


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_changes_its_values_and_nothing_else(name, tmp_path):
    recipe = read_yaml(find_recipe(ROOT / "recipes", name))
    if recipe["vocabulary"]["source"] != "train":  # a file that the user names
        (tmp_path / "vectors.bin").touch()
        recipe = merge(recipe, {"vocabulary": {"vectors": str(tmp_path / "vectors.bin")}})
    text, lines = overlay(ROOT / "params.yaml", recipe)
    assert comments(text) == comments((ROOT / "params.yaml").read_text())
    result = tmp_path / "params.yaml"
    result.write_text(text)
    load_params(result)
    before, after = dict(flat(read_yaml(ROOT / "params.yaml"))), dict(flat(read_yaml(result)))
    wanted = dict(flat(recipe))
    assert after == before | wanted
    differing = {key for key in before if before[key] != after[key]}
    assert {line.split(":")[0] for line in lines} == differing
    again, nothing = overlay(result, recipe)
    assert (again, nothing) == (text, [])


def test_first_recipes_have_the_settings_of_the_paper():
    for name, network, layer, folds in [
        ("vse_2019_flickr30k", "vgg19", "fc7", 1),
        ("vse_2019_mscoco", "resnet152", "pool5", 5),
    ]:
        recipe = read_yaml(find_recipe(ROOT / "recipes", name))
        assert recipe["loss"] == "knn_margin"
        assert recipe["ranking"] | {"margin": 0.2, "k": 3} == recipe["ranking"]
        assert (recipe["vse"]["dim"], recipe["vse"]["hidden"]) == (1024, 1024)
        assert recipe["vse"]["word_dim"] == 300
        training = recipe["vse"]["training"]
        assert (training["epochs"], training["batch_size"]) == (30, 128)
        assert (training["lr"], training["lr_step"], training["lr_factor"]) == (0.001, 10, 0.1)
        assert recipe["image_features"]["model"] == network
        assert recipe["image_features"]["layers"] == [layer]
        assert recipe["evaluation"]["folds"] == folds


@pytest.mark.parametrize("dataset", ["flickr30k", "mscoco"])
@pytest.mark.parametrize(
    ("feature", "hidden", "dim"),
    [("", 2048, 512), ("_tfidf", 2048, 512), ("_mean_vector", 1024, 256)],
)
def test_two_branch_recipes_hold_the_papers_settings(dataset, feature, hidden, dim):
    """Wang et al. 2016, sections 2.2, 3.1 and 3.2."""
    recipe = read_yaml(find_recipe(ROOT / "recipes", f"two_branch_2016_{dataset}{feature}"))
    own = recipe["two_branch"]
    assert (own["hidden"], own["dim"], own["dropout"], own["margin"]) == (hidden, dim, 0.5, 0.1)
    assert list(own["weights"].values()) == [1, 2, 0, 0.2]
    assert (recipe["loss"], recipe["ranking"]["k"], own["structure_k"]) == ("knn_margin", 50, 50)
    training = own["training"]
    assert (training["batch_size"], training["epochs"]) == (1500, 30)
    assert (training["lr"], training["lr_step"], training["lr_factor"]) == (0.1, 10, 0.1)
    assert (training["momentum"], training["weight_decay"]) == (0.9, 0.0005)
    images = recipe["image_features"]
    assert (images["model"], images["layers"], images["views"]) == ("vgg19", ["fc7"], "ten_crop")
    if feature == "_tfidf":
        terms = {"flickr30k": 3000, "mscoco": 5600}[dataset]
        assert recipe["sentences"]["tfidf"]["terms"] == terms
    if feature == "":
        fisher = recipe["sentences"]["fisher"]
        assert (fisher["mixture"], fisher["centres"], fisher["pca"]) == ("hglmm", 30, 6000)


def test_unknown_recipe_lists_those_there_are():
    with pytest.raises(WorkbenchError, match="vse_2019_flickr30k"):
        find_recipe(ROOT / "recipes", "../params")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"los": 1}, "unknown key los"),
        ({"vse": {"width": 1}}, "unknown key vse.width"),
        ({"vse": 3}, "vse is a section"),
        ({"loss": {"name": "x"}}, "loss is a value"),
        ({"loss": "bogus"}, "allowed are sum_margin"),
        ({"image_features": {"layers": []}}, "image_features.layers"),
    ],
)
def test_wrong_overlay_is_refused(changes, words):
    with pytest.raises(WorkbenchError, match=words):
        overlay(ROOT / "params.yaml", changes)


def test_settings_are_nested_yaml():
    assert parse_settings(("a.b=1", "a.c=[x, y]", "d=null")) == {
        "a": {"b": 1, "c": ["x", "y"]},
        "d": None,
    }
    with pytest.raises(WorkbenchError, match="no setting"):
        parse_settings(("loss",))


def test_merge_lets_the_right_side_win():
    assert merge({"a": {"b": 1, "c": 2}}, {"a": {"c": 3}, "d": 4}) == {
        "a": {"b": 1, "c": 3},
        "d": 4,
    }
