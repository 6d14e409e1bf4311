from contextlib import chdir
from pathlib import Path

import pytest

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.graph import LOCALISING, resolved_stage, stage_items
from pipeline.runtime.recipes import (
    TARGETS,
    applied,
    find_recipe,
    merge,
    overlay,
    parse_settings,
    read_recipe,
)
from pipeline.runtime.yaml_text import plain_yaml, read_yaml
from stages.params import default_values, find_problems, load_params

ROOT = Path(__file__).resolve().parents[3]
FOLDER = ROOT / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
READ = {name: read_recipe(FOLDER, name) for name in RECIPES}
DEFAULT_VALUES = default_values()


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


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
    """Files and folders that a user names."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "vectors.bin").touch()
    return folder


def with_paths(settings, paths):
    if settings["vocabulary"].get("source", "train") != "train":
        settings = merge(settings, {"vocabulary": {"vectors": str(paths / "vectors.bin")}})
    if settings.get("image_features", {}).get("normalisation") == "caffe":
        settings = merge(settings, {"image_features": {"weights": str(paths / "vectors.bin")}})
    if settings.get("regions", {}).get("source", "detector") not in ("detector", "grid"):
        settings = merge(settings, {"regions": {"path": str(paths)}})
    if settings.get("phrases", {}).get("proposals", {}).get("source") == "file":
        own = {"proposals": {"path": str(paths)}}
        own |= {"features": {"network": {"weights": str(paths / "vectors.bin")}}}
        settings = merge(settings, {"phrases": own})
    return settings


@pytest.fixture(scope="module")
def alone(paths):
    """The result of every recipe, applied to params.yaml as committed: a text, what it changes."""
    found = {}
    with chdir(ROOT):
        for name in RECIPES:
            changes = with_paths(READ[name].settings, paths)
            found[name] = applied(ROOT / "params.yaml", DEFAULT_VALUES, changes, find_problems)
    return found


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_changes_its_values_and_nothing_else(name, alone, paths, tmp_path):
    recipe = with_paths(READ[name].settings, paths)
    text, lines = alone[name]
    assert comments(text) == comments((ROOT / "params.yaml").read_text())
    result = tmp_path / "params.yaml"
    result.write_text(text)
    load_params(result)
    before, after = dict(flat(read_yaml(ROOT / "params.yaml"))), dict(flat(read_yaml(result)))
    wanted = dict(flat(recipe))
    assert after == before | wanted
    differing = {key for key in before if before[key] != after[key]}
    assert {line.split(":")[0] for line in lines} == differing
    assert applied(result, DEFAULT_VALUES, recipe, find_problems) == (text, [])


@pytest.mark.parametrize("second", RECIPES)
def test_after_another_recipe_it_is_as_if_applied_alone(second, alone, paths, tmp_path):
    """Byte by byte, after the recipe before it in a ring and after the one that sets most."""
    params = tmp_path / "params.yaml"
    changes = with_paths(READ[second].settings, paths)
    fullest = max(RECIPES, key=lambda name: len(dict(flat(READ[name].settings))))
    for first in {RECIPES[RECIPES.index(second) - 1], fullest}:
        params.write_text(alone[first][0])
        assert applied(params, DEFAULT_VALUES, changes, find_problems)[0] == alone[second][0], first


OF_THE_USER = """\
# my own comment
loss: infonce
seed: 7
raw: /nowhere
vocabulary: {sentence_markers: true}
runtime:
  # of my machine
  threads: 5
old_key: 1
vse: null
"""


@pytest.mark.parametrize("name", RECIPES)
def test_of_a_changed_params_yaml_comments_and_the_machine_s_settings_are_kept(
    name, alone, paths, tmp_path
):
    params = tmp_path / "params.yaml"
    params.write_text(OF_THE_USER)
    changes = with_paths(READ[name].settings, paths)
    text, lines = applied(params, DEFAULT_VALUES, changes, find_problems)
    own = {"runtime": {"threads": 5}}
    assert plain_yaml(text, "") == merge(plain_yaml(alone[name][0], ""), own)
    assert text.startswith("# my own comment\nloss: ")
    assert "\n  # of my machine\n  threads: 5\n" in text
    assert "seed: 7 -> 0" in lines
    assert "raw: /nowhere -> data/raw/shapes" in lines
    assert "old_key: 1 -> (none)" in lines
    assert "runtime.device: (none) -> auto" in lines


def test_the_defaults_bring_every_byte_of_the_repository_back(tmp_path, alone):
    """Those of `runtime`, too, where they are given as changes: `vse recipe default`."""
    params = tmp_path / "params.yaml"
    text = alone["photographs"][0].replace("  threads: 2 ", "  threads: 3 ")
    params.write_text(text)
    assert "threads: 3" in applied(params, DEFAULT_VALUES, {}, find_problems)[0]
    text, lines = applied(params, DEFAULT_VALUES, DEFAULT_VALUES, find_problems)
    assert text == (ROOT / "params.yaml").read_text()
    assert "runtime.threads: 3 -> 2" in lines


@pytest.mark.parametrize("runtime", ["null", "3", "{thread: 2}", "{threads: many}"])
def test_a_wrong_runtime_is_named_and_not_replaced(runtime, tmp_path):
    params = tmp_path / "params.yaml"
    params.write_text(f"runtime: {runtime}\n")
    with pytest.raises(WorkbenchError, match="runtime"):
        applied(params, DEFAULT_VALUES, {}, find_problems)


GRAPH = ROOT / "dvc.yaml"


@pytest.fixture(scope="module")
def read_by():
    """A function from a target to the sections and keys of params.yaml that the stages up to it
    read."""
    stages, makers = {}, {}
    for name, definition in read_yaml(GRAPH)["stages"].items():
        for item in stage_items(name, GRAPH) if "foreach" in definition else [None]:
            stage = resolved_stage(name, item, GRAPH)
            params = {param for param in stage.get("params", []) if isinstance(param, str)}
            options = [word.removeprefix("--") for word in stage["cmd"].split()]
            params |= {f"scoring.{key}" for key in DEFAULT_VALUES["scoring"] if key in options}
            key = name if item is None else f"{name}@{item}"
            stages[key] = params, stage["deps"]
            for kind in ("outs", "plots", "metrics"):
                for out in stage.get(kind, []):
                    makers[out if isinstance(out, str) else next(iter(out))] = key

    def read(target):
        params, deps = stages[target]
        upstream = {
            maker
            for out, maker in makers.items()
            for dep in deps
            if dep == out or dep.startswith(f"{out}/")
        }
        return params.union(*map(read, upstream))

    return read


def is_in(key, section):
    return key == section or key.startswith(f"{section}.")


def is_read(key, values):
    """Whether a stage that reads a section looks at a key of it, with these settings."""
    vocabulary, sentences = values["vocabulary"], values.get("sentences", {})
    uses_detector = "detector" in (
        values.get("image_features", {}).get("weights"),
        values.get("regions", {}).get("source"),
    )
    by_lists = bool(values["corpus"].get("split_files"))
    unread = {
        "shapes": values["dataset"] != "shapes",
        "corpus.restval": values["dataset"] != "karpathy_json",
        "corpus.split_files": values["dataset"] != "captions_csv",
        "corpus.val_images": values["dataset"] != "captions_csv" or by_lists,
        "corpus.test_images": values["dataset"] != "captions_csv" or by_lists,
        "corpus.image_field": values["dataset"] not in ("parquet_shards", "webdataset"),
        "corpus.caption_field": values["dataset"] not in ("parquet_shards", "webdataset"),
        "corpus.positives_path": values["corpus"].get("positives") not in ("eccv", "cxc", "file"),
        "corpus.positives_threshold": values["corpus"].get("positives") != "cxc",
        "corpus.mask_positives": values["corpus"].get("positives") not in ("cxc", "file"),
        "vocabulary.dim": vocabulary["source"] != "train",
        "vocabulary.epochs": vocabulary["source"] != "train",
        "image_features.file": values.get("image_features", {}).get("source") == "network",
        "detector": key != "detector.weights" and not uses_detector,
        "pseudo_classes": key != "pseudo_classes.source"
        and values.get("pseudo_classes") == {"source": "instance"},
        **{
            f"sentences.{encoding}": sentences.get("encoding") != encoding
            for encoding in ("mean_vector", "tfidf", "fisher", "file")
        },
    }
    return not any(no and is_in(key, name) for name, no in unread.items())


# of the machine or the user's to say: paths, and what changes no result
NOT_A_RECIPE_S = {
    "seed",
    "corpus.annotations",
    "corpus.images",
    "vocabulary.vectors",
    "regions.path",
    "sentences.tfidf.wordnet",
    "image_features.compile",
    "image_features.workers",
    "regions.workers",
    "dual_path.training.workers",
    "two_branch.fine_tuning.workers",
    "phrases.proposals.path",
    "phrases.features.network.weights",
    "phrases.features.workers",
}


def the_user_s(settings):
    """Keys that a recipe leaves alone: weights that were converted from Caffe are a file, too."""
    caffe = settings.get("image_features", {}).get("normalisation") == "caffe"
    return NOT_A_RECIPE_S | ({"image_features.weights"} if caffe else set())


# those of a paper; the others change a few of the defaults and are for all models
OF_PAPERS = [name for name in RECIPES if READ[name].targets]


def test_recipes_for_all_models_change_the_defaults_and_repeat_none():
    assert {name for name in RECIPES if name not in OF_PAPERS} == {"photographs"}
    default = dict(flat(DEFAULT_VALUES))
    given = dict(flat(read_recipe(FOLDER, "photographs").settings))
    assert given.keys() <= default.keys()
    # those that are said although they are the defaults': what the sizes beside them fit
    assert {key for key, value in given.items() if default[key] == value} <= {"regions.grid"}


@pytest.mark.parametrize("name", OF_PAPERS)
def test_a_recipe_sets_every_key_that_its_models_read(name, read_by):
    recipe = READ[name]
    given = dict(flat(recipe.settings))
    sections = set().union(*map(read_by, recipe.targets))
    read = {
        key
        for key in dict(flat(DEFAULT_VALUES))
        if any(is_in(key, section) for section in sections) and is_read(key, recipe.settings)
    }
    common = {"loss", "dataset", "corpus"}
    of_phrases = {"phrases.nms", "evaluation.bootstrap"}
    retrieves = not any(target.startswith(LOCALISING) for target in recipe.targets)
    assert sections >= common | ({"evaluation", "inference"} if retrieves else of_phrases)
    assert read - the_user_s(recipe.settings) - set(given) == set()
    # and none that they do not, which would say that it matters
    assert {key for key in given if not is_read(key, recipe.settings)} == set()
    assert set(given) <= read


def test_every_target_is_an_evaluation():
    targets = {target for name in RECIPES for target in READ[name].targets}
    stages = ("evaluate", LOCALISING)
    assert targets <= {f"{s}@{model}" for s in stages for model in stage_items(s, GRAPH)}
    assert TARGETS not in DEFAULT_VALUES


@pytest.mark.parametrize("targets", ["evaluate@vse", "[3]", "['a; b']", "['']", "null", "{a: b}"])
def test_targets_that_are_none(targets, tmp_path):
    (tmp_path / "mine.yaml").write_text(f"targets: {targets}\nloss: infonce\n")
    with pytest.raises(WorkbenchError, match=r"mine.yaml: targets = .*: must be a list of stages"):
        read_recipe(tmp_path, "mine")


def under(section, **values):
    return {f"{section}.{key.replace('__', '.')}": value for key, value in values.items()}


VSE = {"loss": "knn_margin", "ranking.k": 3, "vse.margin": 0.2, "vse.dim": 1024}
VSE |= under("vse", hidden=1024, word_dim=300, text_encoder="gru", text_pool="mean")
VSE |= under("vse.training", epochs=30, batch_size=128, lr=0.001, lr_step=10, lr_factor=0.1)
# Wang et al. 2016, sections 2.2, 3.1 and 3.2
TWO_BRANCH = {"loss": "knn_margin", "ranking.k": 50}
TWO_BRANCH |= under("two_branch", dropout=0.5, margin=0.1, structure_k=50)
TWO_BRANCH |= under("two_branch.training", batch_size=1500, epochs=30, lr=0.1, lr_step=10)
TWO_BRANCH |= under("two_branch.training", lr_factor=0.1, momentum=0.9, weight_decay=0.0005)
TWO_BRANCH |= under("image_features", model="vgg19", layers=["fc7"], views="ten_crop", size=None)
TWO_BRANCH |= under("image_features", resize="squash", normalisation="caffe")
TWO_BRANCH |= under("vocabulary", source="word2vec_bin", words="all_captions")
WIDE, NARROW = ({"two_branch.hidden": hidden, "two_branch.dim": hidden // 4}
                for hidden in (2048, 1024))  # fmt: skip
FISHER = WIDE | under("sentences.fisher", mixture="hglmm", centres=30, pca=6000)
# Lee et al. 2018, t-i AVG; the arguments in the authors' README and their defaults
SCAN = {"loss": "max_margin", "regions.source": "scan_npy", "regions.boxes": 36}
SCAN |= under("scan", dim=1024, word_dim=300, direction="t2i", pooling="mean", temperature=9)
SCAN |= under("scan", position_gate=False, margin=0.2)
SCAN |= under("scan.training", batch_size=128, clip=2)
# Chen and Luo 2020, implementation details and training strategy
DP_RNN = {"loss": "max_margin", "regions.boxes": 36, "dp_rnn.margin": 0.2}
DP_RNN |= under("dp_rnn", dim=1024, word_dim=300, candidates=10, beta_words=0.3)
DP_RNN |= under("dp_rnn", temperature_objects=9, temperature_words=4, orientation="both")
DP_RNN |= under("dp_rnn", position_gate=True, recurrent=True)
DP_RNN |= under("dp_rnn.training", lr_step=10, lr_factor=0.1, batch_size=128)
DP_RNN |= under("dp_rnn.training.epochs", matching=1, recurrent=1)
# Zheng et al. 2020, figure 2, section 5 and section 6.2
DUAL = under("dual_path", dim=2048, hidden=2048, dropout=0.75, margin=1.0, alignment="shift")
DUAL |= under("dual_path", word_dim=300, resize=256, crop=224, flip=True, text_pool="mean")
DUAL |= under("dual_path", text_cnn="resnet50") | {"image_features.model": "resnet50"}
DUAL |= under("dual_path.training", optimiser="sgd", momentum=0.9, batch_size=32)
DUAL |= {"vocabulary.known_words_only": True, "pseudo_classes.source": "instance"}
FLICKR, COCO = {"evaluation.folds": 1}, {"evaluation.folds": 5}
SHORT = {"image_features.resize": "short_side", "dual_path.slots": 32}
PAPERS = {
    "vse_2019_flickr30k": VSE | FLICKR | under("image_features", model="vgg19", layers=["fc7"]),
    "vse_2019_mscoco": VSE | COCO | under("image_features", model="resnet152", layers=["pool5"]),
    "two_branch_2016_flickr30k": TWO_BRANCH | FISHER,
    "two_branch_2016_mscoco": TWO_BRANCH | FISHER,
    "two_branch_2016_flickr30k_tfidf": TWO_BRANCH | WIDE | {"sentences.tfidf.terms": 3000},
    "two_branch_2016_mscoco_tfidf": TWO_BRANCH | WIDE | {"sentences.tfidf.terms": 5600},
    "two_branch_2016_flickr30k_mean_vector": TWO_BRANCH | NARROW,
    "two_branch_2016_mscoco_mean_vector": TWO_BRANCH | NARROW,
    "scan_2018_flickr30k": SCAN | FLICKR | under("scan.training", lr=0.0002, lr_step=15, epochs=30),
    "scan_2018_mscoco": SCAN | COCO | under("scan.training", lr=0.0005, lr_step=10, epochs=20),
    "dp_rnn_2020_flickr30k": DP_RNN | FLICKR | under("dp_rnn", beta_objects=0.3, training__lr=2e-4),
    "dp_rnn_2020_mscoco": DP_RNN | COCO | under("dp_rnn", beta_objects=0, training__lr=5e-4),
    "dual_path_2020_flickr30k": DUAL | FLICKR | SHORT,
    "dual_path_2020_mscoco": DUAL | COCO | SHORT,
    "dual_path_2020_cuhk_pedes": DUAL
    | FLICKR
    | {"image_features.resize": "squash", "dual_path.slots": 56},
}


@pytest.mark.parametrize("name", PAPERS)
def test_recipes_hold_the_published_settings(name):
    given, wanted = dict(flat(READ[name].settings)), PAPERS[name]
    assert {key: given[key] for key in wanted} == wanted


def test_parts_of_recipes_that_are_lists_or_depend_on_each_other():
    for name in PAPERS:
        settings = READ[name].settings
        if name.startswith("two_branch"):
            assert list(settings["two_branch"]["weights"].values()) == [1, 2, 0, 0.2]
        if name.startswith("dp_rnn"):
            # as many of 1,014 or 5,000 validation images choose the epoch as rank the test images
            shortlist = settings["dp_rnn"]["validation_shortlist"]
            assert shortlist == settings["scoring"]["shortlist"] >= 100
        if name.startswith("dual_path"):
            first, second = settings["dual_path"]["phases"]
            assert list(first["weights"].values()) == [0, 1, 1]
            assert list(second["weights"].values()) == [1, 1, 1]
            assert set(second["train"]) - set(first["train"]) == {"image_cnn"}
            assert first["lr"] == 0.001


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
        ({"loss": "bogus"}, "allowed are infonce"),
        ({"image_features": {"layers": []}}, "image_features.layers"),
    ],
)
def test_wrong_overlay_is_refused(changes, words):
    with pytest.raises(WorkbenchError, match=words):
        overlay(ROOT / "params.yaml", changes, find_problems)


@pytest.mark.parametrize(
    "setting",
    ["regions.network.layers=null", "shapes.objects=[3, 7]", "detector.ratios=[1.0, 2.0]"],
)
def test_a_list_for_a_value_and_a_value_for_a_list_keep_the_comments(setting, tmp_path):
    text = (ROOT / "params.yaml").read_text()
    changed, lines = overlay(ROOT / "params.yaml", parse_settings((setting,)), find_problems)
    assert len(lines) == 1
    pairs = zip(changed.splitlines(), text.splitlines(), strict=True)
    assert sum(new != old for new, old in pairs) == 1
    (tmp_path / "params.yaml").write_text(changed)
    assert applied(tmp_path / "params.yaml", DEFAULT_VALUES, {}, find_problems)[0] == text


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
    ("settings", "message"),
    [
        (("raw=[",), r"-S raw=\[, line 1: not valid YAML"),
        (("raw='x",), "-S raw='x.*: not valid YAML"),
        (("seed=1", "seed.x=2"), "-S seed.x=2: seed is given a value, too"),
        (("seed.x=2", "seed=1"), "-S seed=1: keys of seed are given, too"),
        (("a.b.c=1", "a.b=2"), "-S a.b=2: keys of b are given, too"),
    ],
)
def test_settings_that_cannot_be_are_plain_errors(settings, message):
    with pytest.raises(WorkbenchError, match=message):
        parse_settings(settings)
