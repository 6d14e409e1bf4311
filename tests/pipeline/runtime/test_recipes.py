from pathlib import Path

import pytest

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.files import read_yaml
from pipeline.runtime.recipes import find_recipe, merge, overlay, parse_settings
from stages.params import find_problems, load_params

ROOT = Path(__file__).resolve().parents[3]
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
    text, lines = overlay(ROOT / "params.yaml", {}, find_problems)
    assert text == (ROOT / "params.yaml").read_text()
    assert lines == []


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_changes_its_values_and_nothing_else(name, tmp_path):
    recipe = read_yaml(find_recipe(ROOT / "recipes", name))
    if recipe["vocabulary"]["source"] != "train":  # a file that the user names
        (tmp_path / "vectors.bin").touch()
        recipe = merge(recipe, {"vocabulary": {"vectors": str(tmp_path / "vectors.bin")}})
    if recipe.get("regions", {}).get("source", "detector") != "detector":
        recipe = merge(recipe, {"regions": {"path": str(tmp_path)}})
    text, lines = overlay(ROOT / "params.yaml", recipe, find_problems)
    assert comments(text) == comments((ROOT / "params.yaml").read_text())
    result = tmp_path / "params.yaml"
    result.write_text(text)
    load_params(result)
    before, after = dict(flat(read_yaml(ROOT / "params.yaml"))), dict(flat(read_yaml(result)))
    wanted = dict(flat(recipe))
    assert after == before | wanted
    differing = {key for key in before if before[key] != after[key]}
    assert {line.split(":")[0] for line in lines} == differing
    again, nothing = overlay(result, recipe, find_problems)
    assert (again, nothing) == (text, [])


def test_first_recipes_have_the_settings_of_the_paper():
    for name, network, layer, folds in [
        ("vse_2019_flickr30k", "vgg19", "fc7", 1),
        ("vse_2019_mscoco", "resnet152", "pool5", 5),
    ]:
        recipe = read_yaml(find_recipe(ROOT / "recipes", name))
        assert recipe["loss"] == "knn_margin"
        assert (recipe["vse"]["margin"], recipe["ranking"]["k"]) == (0.2, 3)
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


@pytest.mark.parametrize(
    ("dataset", "lr", "lr_step", "epochs", "folds"),
    [("flickr30k", 0.0002, 15, 30, 1), ("mscoco", 0.0005, 10, 20, 5)],
)
def test_scan_recipes_hold_the_published_settings(dataset, lr, lr_step, epochs, folds):
    """Lee et al. 2018, t-i AVG; the arguments in the authors' README and their defaults."""
    recipe = read_yaml(find_recipe(ROOT / "recipes", f"scan_2018_{dataset}"))
    own, training = recipe["scan"], recipe["scan"]["training"]
    assert (own["dim"], own["word_dim"]) == (1024, 300)
    assert (own["direction"], own["pooling"], own["temperature"]) == ("t2i", "mean", 9)
    assert own["position_gate"] is False
    assert (recipe["loss"], own["margin"]) == ("max_margin", 0.2)
    assert (training["lr"], training["lr_step"], training["epochs"]) == (lr, lr_step, epochs)
    assert (training["batch_size"], training["clip"]) == (128, 2)
    assert (recipe["regions"]["source"], recipe["regions"]["boxes"]) == ("scan_npy", 36)
    assert recipe["evaluation"]["folds"] == folds


@pytest.mark.parametrize(
    ("dataset", "lr", "beta_objects", "folds"),
    [("flickr30k", 0.0002, 0.3, 1), ("mscoco", 0.0005, 0, 5)],
)
def test_dp_rnn_recipes_hold_the_papers_settings(dataset, lr, beta_objects, folds):
    """Chen and Luo 2020, implementation details and training strategy."""
    recipe = read_yaml(find_recipe(ROOT / "recipes", f"dp_rnn_2020_{dataset}"))
    own, training = recipe["dp_rnn"], recipe["dp_rnn"]["training"]
    assert (own["dim"], own["word_dim"], own["candidates"]) == (1024, 300, 10)
    assert (own["temperature_objects"], own["temperature_words"]) == (9, 4)
    assert (own["beta_words"], own["beta_objects"]) == (0.3, beta_objects)
    assert (own["orientation"], own["position_gate"], own["recurrent"]) == ("both", True, True)
    assert (training["lr"], training["lr_step"], training["lr_factor"]) == (lr, 10, 0.1)
    assert (training["epochs"]["matching"], training["epochs"]["recurrent"]) == (1, 1)
    assert training["batch_size"] == 128
    assert (recipe["loss"], own["margin"]) == ("max_margin", 0.2)
    assert recipe["regions"]["boxes"] == 36
    assert recipe["evaluation"]["folds"] == folds


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
        overlay(ROOT / "params.yaml", changes, find_problems)


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


@pytest.mark.parametrize(
    ("dataset", "slots", "folds"), [("flickr30k", 32, 1), ("mscoco", 32, 5), ("cuhk_pedes", 56, 1)]
)
def test_dual_path_recipes_hold_the_papers_settings(dataset, slots, folds):
    """Zheng et al. 2020, figure 2, section 5 and section 6.2."""
    recipe = read_yaml(find_recipe(ROOT / "recipes", f"dual_path_2020_{dataset}"))
    own = recipe["dual_path"]
    assert (own["dim"], own["hidden"], own["dropout"], own["margin"]) == (2048, 2048, 0.75, 1.0)
    assert (own["slots"], own["alignment"], own["word_dim"]) == (slots, "shift", 300)
    assert (own["resize"], own["crop"], own["flip"], own["text_pool"]) == (256, 224, True, "mean")
    assert own["text_cnn"] == recipe["image_features"]["model"] == "resnet50"
    first, second = own["phases"]
    assert [list(phase["weights"].values()) for phase in own["phases"]] == [[0, 1, 1], [1, 1, 1]]
    assert set(second["train"]) - set(first["train"]) == {"image_cnn"}
    training = own["training"]
    assert (training["optimiser"], training["momentum"], training["batch_size"]) == ("sgd", 0.9, 32)
    assert first["lr"] == 0.001
    assert recipe["vocabulary"]["known_words_only"] is True
    assert recipe["pseudo_classes"]["source"] == "instance"
    assert recipe["evaluation"]["folds"] == folds
