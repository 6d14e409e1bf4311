import re
from contextlib import chdir

import pytest
from commands import refusal
from corpora import ROOT
from dvc.utils.hydra import apply_overrides

from pipeline.evaluation.paper_rows import PublishedConfig
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.graph import LOCALISING, MORE, stage_items
from pipeline.runtime.recipes import (
    TARGETS,
    find_recipe,
    leaves,
    merge,
    parse_settings,
    read_recipe,
    with_recipe,
)
from pipeline.runtime.yaml_text import plain_yaml
from stages.params import default_values, find_problems

FOLDER = ROOT / "recipes"
RECIPES = sorted(path.stem for path in FOLDER.glob("*.yaml"))
READ = {name: read_recipe(FOLDER, name) for name in RECIPES}
DEFAULT_VALUES = default_values()


@pytest.fixture(autouse=True)
def _in_root(monkeypatch):
    monkeypatch.chdir(ROOT)


def comments(text):
    return [line.strip() for line in text.splitlines() if line.strip().startswith("#")]


@pytest.fixture(scope="module")
def paths(tmp_path_factory):
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
            found[name] = with_recipe(ROOT / "params.yaml", DEFAULT_VALUES, changes, find_problems)
    return found


def flat(values):
    """All values by their dotted keys; rows of papers, of which there may be none, are one."""
    rows = {key: value for key, value in values.items() if key == "published"}
    return dict(leaves({key: values[key] for key in values.keys() - rows})) | rows


@pytest.mark.parametrize("name", RECIPES)
def test_recipe_changes_its_values_and_nothing_else(name, alone, paths):
    recipe = with_paths(READ[name].settings, paths)
    text, lines = alone[name]
    assert comments(text) == comments((ROOT / "params.yaml").read_text())
    before, after = flat(DEFAULT_VALUES), flat(plain_yaml(text, ""))
    assert after == before | flat(recipe)
    differing = {key for key in after if before.get(key, ...) != after[key]}
    differing |= {f"{MORE}.{model}" for model in READ[name].settings.get(MORE, ())}  # no leaves
    assert {line.split(":")[0] for line in lines} == differing


def test_after_other_recipes_it_is_as_if_applied_alone(alone, paths, tmp_path):
    """Byte by byte, one after the other in one file."""
    params = tmp_path / "params.yaml"
    params.write_text(alone[RECIPES[-1]][0])
    for name in RECIPES:
        changes = with_paths(READ[name].settings, paths)
        params.write_text(with_recipe(params, DEFAULT_VALUES, changes, find_problems)[0])
        assert params.read_text() == alone[name][0], name


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


def test_of_a_changed_params_yaml_comments_and_the_machine_s_settings_are_kept(alone, tmp_path):
    params = tmp_path / "params.yaml"
    params.write_text(OF_THE_USER)
    changes = READ["vse_2019_flickr30k"].settings
    text, lines = with_recipe(params, DEFAULT_VALUES, changes, find_problems)
    own = {"runtime": {"threads": 5}}
    assert plain_yaml(text, "") == merge(plain_yaml(alone["vse_2019_flickr30k"][0], ""), own)
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
    assert "threads: 3" in with_recipe(params, DEFAULT_VALUES, {}, find_problems)[0]
    text, lines = with_recipe(params, DEFAULT_VALUES, DEFAULT_VALUES, find_problems)
    assert text == (ROOT / "params.yaml").read_text()
    assert "runtime.threads: 3 -> 2" in lines


# What stands behind the list or the mapping that it sets is what DVC's writer may lose.
SET = [
    "cca.regularisation=[0.1,0.2]",
    "search.models=[vse]",
    "inference.criteria=[csls,sinkhorn]",
    "+average_scores.mine={members:[cca,vse],weights:null,normalise:z}",
    "regions.grid=[2,2]",
    "+external.mine={folder: docs, scores: index.md}",
    "shapes.objects=[3,7]",
    "+vse.training.clip=1.0",
]
UNSET = ["~external.mine", "~average_scores.mine", "search.models=[]", "shapes.objects=null"]
UNSET += ["~vse.training.clip"]


@pytest.mark.parametrize("recipe", ["default", "photographs"])
def test_what_dvc_exp_run_sets_is_all_that_it_changes(recipe, alone, tmp_path):
    """Its own function that writes params.yaml, several times over one file."""
    params = tmp_path / "params.yaml"
    first = (ROOT / "params.yaml").read_text() if recipe == "default" else alone[recipe][0]
    params.write_text(first)
    apply_overrides(params, ["loss=knn_margin"])
    assert params.read_text() == first.replace("\nloss: sum_margin\n", "\nloss: knn_margin\n")
    for settings in (SET, UNSET):
        apply_overrides(params, settings)
        before = params.read_text()
        apply_overrides(params, ["loss=infonce", "training.patience=3"])
        apply_overrides(params, ["loss=knn_margin", "training.patience=null"])
        assert [line.split() for line in params.read_text().splitlines()] == [
            line.split() for line in before.splitlines()
        ]
        assert re.findall("#.*", params.read_text()) == re.findall("#.*", first)


@pytest.mark.parametrize("runtime", ["null", "3", "{thread: 2}", "{threads: many}"])
def test_a_wrong_runtime_is_named_and_not_replaced(runtime, tmp_path):
    params = tmp_path / "params.yaml"
    params.write_text(f"runtime: {runtime}\n")
    assert "runtime" in refusal(with_recipe, params, DEFAULT_VALUES, {}, find_problems)


# What a recipe may leave out: paths, what changes no result, what other datasets and sources read.
NOT_SAID = re.compile(
    r"(detector|corpus|sentences|scoring)\.|.*\.(workers|compile|path|vectors|weights|file\..*)$|"
    r"vocabulary\.(dim|epochs)|pseudo_classes\.k|evaluation\.(folds|subset|recall_k)"
)


@pytest.mark.parametrize("name", [name for name in RECIPES if READ[name].targets])
def test_a_recipe_of_a_paper_says_all_of_its_sections(name):
    """Defaults may change, and a paper's settings do not."""
    settings = READ[name].settings
    models = {target.rpartition("@")[2] for target in READ[name].targets}
    sections = {"loss", "dataset", "corpus", "vocabulary", "ranking", "training", *models}
    assert settings.keys() >= sections
    every = flat({section: DEFAULT_VALUES[section] for section in settings})
    own = {f"training.{key}" for model in models for key in settings[model].get("training", ())}
    left_out = every.keys() - flat(settings).keys() - own
    assert {key for key in left_out if not NOT_SAID.match(key)} == set()


def test_every_target_is_an_evaluation():
    items = [(stage, stage_items(stage, ROOT / "dvc.yaml")) for stage in ("evaluate", LOCALISING)]
    for name in RECIPES:
        more = ("evaluate_more", READ[name].settings.get(MORE, {}))
        evaluated = {f"{stage}@{model}" for stage, models in [*items, more] for model in models}
        assert set(READ[name].targets) <= evaluated, name
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
VSE |= under("vse.training", epochs=30, batch_size=128, lr=0.001, lr_step=10)
VSE |= {"training.lr_factor": 0.1}
# Wang et al. 2016, sections 2.2, 3.1 and 3.2
TWO_BRANCH = {"loss": "knn_margin", "ranking.k": 50}
TWO_BRANCH |= under("two_branch", dropout=0.5, margin=0.1, structure_k=50)
TWO_BRANCH |= under("two_branch.training", batch_size=1500, epochs=30, lr=0.1, lr_step=10)
TWO_BRANCH |= under("training", lr_factor=0.1, momentum=0.9, weight_decay=0.0005)
TWO_BRANCH |= under("image_features", model="vgg19", layers=["fc7"], views="ten_crop", size=None)
TWO_BRANCH |= under("image_features", resize="squash", normalisation="caffe")
TWO_BRANCH |= under("vocabulary", source="word2vec_bin", words="all_captions")
WIDE, NARROW = (
    {"two_branch.hidden": hidden, "two_branch.dim": hidden // 4} for hidden in (2048, 1024)
)
FISHER = WIDE | under("sentences.fisher", mixture="hglmm", centres=30, pca=6000)
# Lee et al. 2018, t-i AVG; the arguments in the authors' README and their defaults
SCAN = {"loss": "max_margin", "regions.source": "scan_npy", "regions.boxes": 36}
SCAN |= under("scan", dim=1024, word_dim=300, direction="t2i", pooling="mean", temperature=9)
SCAN |= under("scan", position_gate=False, margin=0.2)
SCAN |= {"scan.training.batch_size": 128, "training.clip": 2}
# the average of t-i AVG and i-t LSE, both trained by dp_rnn without its own parts
BOTH = {"loss": "max_margin", "regions.source": "scan_npy", "regions.boxes": 36}
BOTH |= under("dp_rnn", dim=1024, word_dim=300, orientation="both", matching="scan", vectors="unit")
BOTH |= under("dp_rnn", pooling="mean_lse", recurrent=False, position_gate=False, margin=0.2)
BOTH |= under("dp_rnn", temperature_words=9, temperature_objects=4)
BOTH |= {"dp_rnn.training.batch_size": 128, "training.clip": 2}
# Chen et al. 2021; the authors' code
INFINITY = {"loss": "max_margin", "regions.source": "scan_npy", "regions.boxes": 36}
INFINITY |= under("vse_infinity", dim=1024, margin=0.2, image_mlp=True, drop_regions=0.2)
INFINITY |= under("vse_infinity", image_pool="gpo", text_pool="gpo", standardise_images=False)
INFINITY |= under("vse_infinity.training", epochs=25, batch_size=128, lr=0.0005, lr_step=15)
INFINITY |= under("training", optimiser="adamw", weight_decay=1e-4, clip=2, warmup_epochs=1)
# Chen and Luo 2020, implementation details and training strategy
DP_RNN = {"loss": "max_margin", "regions.boxes": 36, "dp_rnn.margin": 0.2}
DP_RNN |= under("dp_rnn", dim=1024, word_dim=300, candidates=10, beta_words=0.3)
DP_RNN |= under("dp_rnn", temperature_objects=9, temperature_words=4, orientation="both")
DP_RNN |= under("dp_rnn", position_gate=True, recurrent=True)
DP_RNN |= under("dp_rnn.training", lr_step=10, batch_size=128) | {"training.lr_factor": 0.1}
DP_RNN |= under("dp_rnn.training.epochs", matching=1, recurrent=1)
# Zheng et al. 2020, figure 2, section 5 and section 6.2
DUAL = under("dual_path", dim=2048, hidden=2048, dropout=0.75, margin=1.0, alignment="shift")
DUAL |= under("dual_path", word_dim=300, resize=256, crop=224, flip=True, text_pool="mean")
DUAL |= under("dual_path", text_cnn="resnet50") | {"image_features.model": "resnet50"}
DUAL |= under("training", optimiser="sgd", momentum=0.9) | {"dual_path.training.batch_size": 32}
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
    "scan_2018_flickr30k_average": BOTH
    | FLICKR
    | under(
        "dp_rnn", lse=5, training__lr=2e-4, training__lr_step=15, training__epochs__matching=30
    ),
    "scan_2018_mscoco_average": BOTH
    | COCO
    | under(
        "dp_rnn", lse=20, training__lr=5e-4, training__lr_step=10, training__epochs__matching=20
    ),
    "vse_infinity_2021_flickr30k": INFINITY | FLICKR,
    "vse_infinity_2021_mscoco": INFINITY | COCO,
    # 25 epochs, a tenth of the rate for BERT
    "vse_infinity_2021_flickr30k_bert": INFINITY
    | FLICKR
    | under("vse_infinity", words="transformer", training__epochs=2, drop_words=0.2)
    | under("vse_infinity.train_words", epochs=23, lr=5e-5),
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
    given, wanted = dict(leaves(READ[name].settings)), PAPERS[name]
    assert {key: given[key] for key in wanted} == wanted


def test_parts_of_recipes_that_are_lists_or_depend_on_each_other():
    for name in PAPERS:
        settings = READ[name].settings
        if name.startswith("two_branch"):
            assert list(settings["two_branch"]["weights"].values()) == [1, 2, 0, 0.2]
        if name.endswith("_average"):
            epochs = settings["dp_rnn"]["training"]["epochs"]
            assert epochs["recurrent"] == epochs["all"] == 0
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


@pytest.mark.parametrize("name", RECIPES)
def test_the_second_line_says_what_a_run_costs(name):
    line = (FOLDER / f"{name}.yaml").read_text().splitlines()[1]
    assert line.startswith("# ")
    for word in ("images", "hours", "memory", "card"):
        assert word in line, word


# of the text files of the papers, and of the README of the authors' code (branch bigru)
R1 = {
    "vse_2019_flickr30k": (34.1, 25.1),
    "vse_2019_mscoco": (57.8, 43.9),
    "two_branch_2016_flickr30k": (40.3, 29.7),
    "two_branch_2016_flickr30k_tfidf": (40.1, 28.1),
    "two_branch_2016_flickr30k_mean_vector": (35.7, 25.1),
    "two_branch_2016_mscoco": (50.1, 39.6),
    "two_branch_2016_mscoco_tfidf": (46.7, 36.2),
    "two_branch_2016_mscoco_mean_vector": (40.7, 33.5),
    "scan_2018_flickr30k": (67.4, 48.6),
    "scan_2018_flickr30k_average": (67.4, 48.6),
    "scan_2018_mscoco": (72.7, 58.8),
    "scan_2018_mscoco_average": (72.7, 58.8),
    "vse_infinity_2021_flickr30k": (76.5, 56.4),
    "vse_infinity_2021_flickr30k_bert": (81.7, 61.4),
    "vse_infinity_2021_mscoco": (78.5, 61.7),
    "dp_rnn_2020_flickr30k": (70.2, 55.5),
    "dp_rnn_2020_mscoco": (75.3, 62.5),
    "dual_path_2020_flickr30k": (53.9, 39.2),
    "dual_path_2020_mscoco": (65.6, 47.1),
    "dual_path_2020_cuhk_pedes": (None, 44.4),
}


@pytest.mark.parametrize("name", PAPERS)
def test_a_recipe_of_a_paper_has_its_figures(name):
    row = PublishedConfig(**READ[name].settings["published"][0])
    figures = row.figures()
    assert (figures.get(("i2t", "r1")), figures[("t2i", "r1")]) == R1[name]
    assert READ[name].targets[0] == f"evaluate@{row.model}"
    folds = READ[name].settings["evaluation"]["folds"]
    assert row.split in ({1: "flickr30k", 5: "mscoco_1k"}[folds], "other", "cuhk_pedes")


def test_unknown_recipe_lists_those_there_are():
    assert "vse_2019_flickr30k" in refusal(find_recipe, ROOT / "recipes", "../params")


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"vse": 3}, "vse = 3: must be a section"),
        ({"loss": {"name": "x"}}, "loss = .*: allowed are infonce"),
    ],
)
def test_wrong_changes_are_refused(changes, words):
    with pytest.raises(WorkbenchError, match=words):
        with_recipe(ROOT / "params.yaml", DEFAULT_VALUES, changes, find_problems)


def test_settings_are_nested_yaml():
    wanted = {"a": {"b": 1, "c": ["x", "y"]}, "d": None}
    assert parse_settings(("a.b=1", "a.c=[x, y]", "d=null")) == wanted
    assert "no setting" in refusal(parse_settings, ("loss",))


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
