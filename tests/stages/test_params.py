"""params.yaml: every wrong value is one line that names its key, and what is right passes."""

import copy

import pytest
from corpora import ROOT, holder
from hypothesis import given
from hypothesis import strategies as st

from models.ranking import LOSSES
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml
from stages.params import (
    NAMED,
    find_problems,
    inherited_keys,
    load_params,
    run_of,
    whole_type,
    with_defaults,
)


@pytest.fixture(autouse=True)
def _in_root(monkeypatch):
    monkeypatch.chdir(ROOT)  # `raw` is relative to the repository


DEFAULTS = read_yaml(ROOT / "params.yaml")


def leaves(node, prefix=()):
    for key, value in node.items():
        if isinstance(value, dict):
            yield from leaves(value, (*prefix, key))
        else:
            yield (*prefix, key)


LEAVES = sorted(leaves(DEFAULTS))
SECTIONS = sorted({leaf[:depth] for leaf in LEAVES for depth in range(1, len(leaf))})
OPEN = [(name,) for name in NAMED]  # any key is right there


def changed(**changes):
    """The default values with keys set, `__` for a dot."""
    values = copy.deepcopy(DEFAULTS)
    for key, value in changes.items():
        path = key.split("__")
        holder(values, path)[path[-1]] = value
    return values


def problems(values):
    return "\n".join(find_problems(values))


@given(st.sampled_from([path for path in LEAVES + SECTIONS if path[0] not in NAMED]))
def test_missing_key_has_its_default(path):
    values = changed()
    del holder(values, path)[path[-1]]
    assert problems(values) == ""
    assert whole_type().model_validate(with_defaults(values)) == whole_type().model_validate(
        with_defaults(DEFAULTS)
    )


@given(st.sampled_from(LEAVES), st.sampled_from([{}, [{}], b"x", float("nan"), -1]))
def test_wrong_value_is_named(path, value):
    # -1 is wrong for every number here and of the wrong type for everything else.
    text = problems(changed(**{"__".join(path): value}))
    assert any(line.startswith(".".join(path)) for line in text.splitlines())
    assert repr(value) in text or isinstance(value, list)


@given(
    st.sampled_from([(), *(section for section in SECTIONS if section not in OPEN)]),
    st.text("abcxyz", min_size=3, max_size=8),
)
def test_unknown_key_is_named(section, name):
    path = (*section, "zz" + name)
    text = problems(changed(**{"__".join(path): 1}))
    assert f"{'.'.join(path)} = 1: unknown key" in text


def test_all_problems_are_reported_at_once_combinations_too():
    text = problems(changed(raw="nowhere", loss="bogus", vocabulary__vectors="x.bin"))
    assert f"loss = 'bogus': allowed are {', '.join(LOSSES)}" in text
    assert "raw = 'nowhere'" in text
    assert "vocabulary.vectors = 'x.bin': must be null" in text


AVERAGE = {"members": ["cca", "vse"], "weights": None, "normalise": "none"}
SCORES = {"folder": ".", "scores": "params.yaml"}
PAIR = {"folder": ".", "images": "params.yaml", "captions": "dvc.yaml"}
PHASES = DEFAULTS["dual_path"]["phases"]
SEARCH = DEFAULTS["search"]


def phases(first=(), second=()):
    changed = [PHASES[0] | dict(first), PHASES[1] | dict(second)]
    return {"dual_path__phases": changed}


C4 = {"detector__architecture": "c4_resnet101", "image_features__weights": "random"}
SAMPLED = {"dual_path__sampled_classes": 9}
INSTANCE_ALONE = {"weights": PHASES[0]["weights"] | {"ranking": 0.0}}
ACCUMULATED = {"dual_path__training__accumulate": 4, **phases(INSTANCE_ALONE, {"epochs": 0})}


def own(path):
    return {"path": path, "ids": "ids", "features": "features"}


RERANK = {"first": "vse", "second": "scan", "top": 5}


def rerank(**changes):
    return {"rerank": {"mine": RERANK | changes}}


def external(**changes):
    return {"external": {"mine": {"folder": "."} | changes}}


def average(**changes):
    return {"average_scores": {"mine": AVERAGE | changes}}


def dp_rnn(recurrent, *epochs):
    named = dict(zip(("matching", "recurrent", "all"), epochs, strict=True))
    return {"dp_rnn__recurrent": recurrent, "dp_rnn__training__epochs": named}


def fisher(**changes):
    return {f"sentences__fisher__{key}": value for key, value in changes.items()}


def search(**changes):
    return {"search": SEARCH | changes}


@pytest.mark.parametrize(
    "changes",
    [
        {"average_scores": {"mine": AVERAGE | {"weights": [2, 1]}, "cca-2": AVERAGE}},
        average(members=["scan", "scan_i2t-2"], normalise="z"),
        average(members=["a", "b", "c", "d"], weights=[1, 2, 3.5, 4]),
        {"average_scores": {}},
        {"rerank": {}},
        {"more_models": {"adapter": {}, "zero_shot": {}}},
        rerank(second="scan_dp_rnn"),
        {"external": {"mine": SCORES, "cca-2": SCORES | {"val_scores": "dvc.yaml"}}},
        {"external": {"mine": PAIR, "cca-2": PAIR | {"similarity": "dot"}}},
        search(index="hnsw", models=["vse", "scan"]),
        {"scoring__keep": "embeddings"},
        {"evaluation__folds": 5},
        {"evaluation__subset": 1000},
        {"sentences__mean_vector__pca": 101},  # another encoding is chosen
        fisher(mixture="gmm+lmm+hglmm", pca="none"),
        fisher(mixture="gmm+hglmm", pca=1024),
        {"vse__word_dim": 7, "vse__word_vectors": "random"},
        *({"loss": loss, "vse__training__epochs": 1} for loss in ("sum_margin", "infonce")),
        {"regions__source": "tsv", "regions__path": "docs"},
        dp_rnn(True, 0, 1, 0),
        dp_rnn(True, 0, 0, 1),
        dp_rnn(False, 1, 0, 0),
        {"dp_rnn__matching": "scan", "dp_rnn__pooling": "lse"},
        C4 | {"detector__weights": "dvc.yaml"},
        *({"corpus__val_images": number} for number in (1, 1000, 0.1, 0.999)),
        {"vse__training__clip": 1.0},
        ACCUMULATED,
    ],
    ids=str,
)
def test_what_is_right_passes(changes):
    assert problems(changed(**changes)) == ""


MIXTURES = "allowed are gmm, lmm, hglmm or several, as gmm+lmm"
HELD_OUT = "must be a whole number from 1, or a share between 0 and 1"
COMPONENTS = "must be a whole number from 1, or none"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"raw": "no/such/folder"}, "no such file or folder"),
        *(({"raw": name}, "raw") for name in ("x" * 5000, "a\0b")),
        ({"raw": "~nobody-of-here/x"}, "~ is not filled in: write the whole path"),
        ({"seed": True}, "must be"),  # no conversions
        ({"vse__margin": "0.2"}, "must be"),
        ({"vse__training__lr": float("inf")}, "must be"),
        ({"vocabulary__source": "word2vec_bin"}, "needs the path of a vector file"),
        *(
            (changes, "an address: download it first")
            for changes in (
                {"raw": "https://example.org/photos.zip"},
                {"vocabulary__source": "word2vec_bin", "vocabulary__vectors": "http://a.b/c.bin"},
                {"image_features__weights": "https://example.org/resnet18.pth"},
                {"detector__weights": "https://example.org/detector.pth"},
            )
        ),
        ({"vocabulary__source": "gensim"}, "if you trust the file, convert it: python -c"),
        ({"vocabulary__vectors": "x.bin"}, "must be null when source is 'train'"),
        ({"vocabulary__background": 9}, "needs a source of vectors"),
        ({"vocabulary__words": "all_captions"}, "needs a source of vectors other than 'train'"),
        *(
            (
                {f"{model}__training__epochs": 1, "loss": loss},
                f"{model}.training.warmup_epochs = 1: must be below epochs = 1 if loss is {loss}",
            )
            for model in ("vse", "phrase_two_branch")
            for loss in ("max_margin", "knn_margin")
        ),
        *(
            (
                {f"{model}__word_dim": 7, f"{model}__word_vectors": "pretrained"},
                f"{model}.word_dim = 7: must equal vocabulary.dim = 100",
            )
            for model in ("vse", "scan", "dp_rnn", "dual_path")
        ),
        ({"training__clip": -1}, "training.clip = -1: must be greater than or equal to 0"),
        ({"vse__training__lr_warmup_epochs": 9}, "must be below epochs = 9; 0: none"),
        ({"scan__training__accumulate": 4}, "unknown key"),
        (
            {"dual_path__training__accumulate": 4, **phases(INSTANCE_ALONE)},
            "the ranking loss of 'stage_2' takes its neg",
        ),
        (SAMPLED | ACCUMULATED, "accumulate = 4: must be 1 with dual_path.sampled_classes = 9"),
        ({"dual_path__training__warmup_epochs": 1}, "unknown key"),
        ({"cca__training": {"lr": 0.1}}, "unknown key"),
        ({"detector__weights": "no.pth"}, "no such file"),
        ({"detector__names": "no/folder"}, "no such folder"),
        ({"detector__anchors": [[1.0]] * 5}, "detector.anchors"),
        ({"detector__anchors": [[1.0], [2.0, 3.0]]}, "detector.anchors"),
        ({"image_features__layers": ["layer1", "layer3.1"]}, "image_features.layers"),
        ({"dataset": "captions_csv"}, "has no boxes to learn from"),
        (C4, "the c4_resnet101 is not trained here"),
        ({"image_features__model": "resnet34"}, "a 'fpn_resnet18' does not hold a 'resnet34'"),
        ({"image_features__weights": "no.pth"}, "no such file"),
        ({"image_features__weights": "a\0b"}, "image_features.weights"),
        ({"image_features__normalisation": "caffe"}, "weights = 'detector' learnt"),
        (
            {"phrases__features__network__long_side": 100},
            "long_side = 100: must be 0 (no limit) or at least short_side, which is 128",
        ),
        ({"image_features__source": "file"}, "file.path = None: source 'file' needs"),
        ({"image_features__file": own("x.npy")}, "must be null when source is 'network'"),
        ({"sentences__encoding": "file", "sentences__file": own("no.npy")}, "no such file"),
        (
            {"image_features__source": "file", "image_features__file": own("params.yaml")},
            "allowed are files that end in .npy, .npz, .h5",
        ),
        ({"regions__path": "x.tsv"}, "must be null when source is 'detector'"),
        ({"regions__source": "butd_h5"}, "needs the path of its files"),
        ({"regions__source": "tsv", "regions__path": "gone"}, "no such file or folder"),
        ({"regions__min": "x"}, "regions.min = 'x': must be"),  # and not judged beside max
        ({"regions__min": 101}, "must not exceed regions.max = 100"),
        ({"sentences__tfidf__stop_words": "no.txt"}, "no such file"),
        ({"sentences__tfidf__wordnet": "no/folder"}, "no such folder"),
        *(
            (fisher(mixture=value), f"mixture = {value!r}: {MIXTURES}")
            for value in ("", "gmm+", "gmm+gmm", "gmm + lmm", ["gmm"], None)
        ),
        *(
            ({"sentences__fisher__pca": value}, f"pca = {value!r}: {COMPONENTS}")
            for value in (0, 1.5, True, "None", None)
        ),
        ({"inference__criteria": "csls"}, "criteria = 'csls': must be a list: write [csls]"),
        ({"evaluation__recall_k": 50}, "recall_k = 50: must be a list: write [50]"),
        ({"image_features__layers": "layer2"}, "must be a list: write [layer2]"),
        ({"inference__criteria": "csls, x"}, "criteria = 'csls, x': must be a list"),
        (
            {"vse__training__patience": "None"},
            "vse.training.patience = 'None': must be a whole number or null: write null",
        ),
        (
            {"image_features__size": "none"},
            "image_features.size = 'none': must be a whole number or null: write null",
        ),
        ({"seed": "None"}, "seed = 'None': must be a whole number"),
        ({"seed": None}, "seed = None: must be a whole number, not null"),
        ({"vse__training__epochs": 3.0}, "epochs = 3.0: must be a whole number: write 3"),
        ({"vse__training__epochs": "3"}, "epochs = '3': must be a whole number: write 3, without"),
        ({"vse__training__lr": "1e-4"}, "lr = '1e-4': must be a number: write 1e-4, without quo"),
        ({"vse__training__lr": "0,5"}, "lr = '0,5': must be a number: write 0.5, without quotes"),
        ({"scoring__cut": "yes"}, "scoring.cut = 'yes': must be true or false"),
        ({"regions__path": 7}, "regions.path = 7: must be a text: write '7', in quotes"),
        ({"raw": "~/no photos"}, "no such file or folder; ~ is not filled in: write /"),
        ({"raw": "https://x.org/a.zip"}, "an address: download it first"),
        ({"inference__criteria": []}, "must not be empty"),
        (
            {"scoring__keep": "embeddings", "inference__criteria": ["csls", "hungarian"]},
            "scoring.keep = 'embeddings': inference.criteria names hungarian",
        ),
        (
            {"evaluation__folds": 5, "evaluation__subset": 9},
            "subset = 9: must be 0 with folds = 5",
        ),
        ({"dual_path__crop": 129}, "must not exceed dual_path.resize = 128"),
        ({"dual_path__phases": PHASES[1:]}, "'stage_2' comes first and trains image_cnn while"),
        (phases({"epochs": 0}), "'stage_2' comes first and trains image_cnn"),
        (phases({"epochs": 0}, {"epochs": 0}), "dual_path.phases: none has epochs"),
        (phases((), {"images": "features"}), "phases.1.train: image_cnn can be trained on"),
        (phases({"weights": dict.fromkeys(PHASES[0]["weights"], 0.0)}), "0.weights: all"),
        (phases((), {"epoch": 3}), "dual_path.phases.1.epoch = 3: unknown key"),
        ({"dual_path__phases": [*PHASES, 3]}, "dual_path.phases.2 = 3"),
        (dp_rnn(True, 4, 0, 0), "recurrent and all are 0, but dp_rnn.recurrent = True"),
        (dp_rnn(False, 0, 3, 0), "matching and all are 0; one of them must have epochs"),
        (
            {"dp_rnn__matching": "multi_attention", "dp_rnn__pooling": "lse"},
            "dp_rnn.pooling = 'lse': dp_rnn.matching = 'multi_attention'",
        ),
        (search(models=["vse"]), "models = ['vse']: must be [] when search.index is 'flat'"),
        (search(index="ivf_pq"), "search.models = []: name the models to index"),
        (search(index="hnsw", models=["gpt"]), "'gpt' is no model; allowed are adapter, cca"),
        *(
            ({"corpus__val_images": value}, f"corpus.val_images = {value!r}: {HELD_OUT}")
            for value in (0, 1.0, 0.0, 1.5, "0.1", True, None)
        ),
        ({"shapes__objects": [5, 3]}, "shapes.objects = [5, 3]: must be fewest, then most"),
        ({"corpus__positives": "cxc"}, "positives_path = None: must name a file inside raw"),
        ({"corpus__positives": "file"}, "positives_path = None: must name a file inside raw"),
        ({"corpus__mask_positives": True}, "mask_positives = True: needs corpus.positives"),
        ({"runtime__extraction__workers": 2}, "needs a number of rows"),
        ({"runtime__extraction__engine": "ray"}, "needs a number of rows"),
        (average(members=["cca"]), "members = ['cca']: must be 2 to 4 names"),
        (average(members=["cca", "cca"]), "members = ['cca', 'cca']: cca twice; use weights"),
        (average(members=["cca", "../x"]), "'../x': a name has letters, digits, _ and - alone"),
        (average(members=["cca", "mine"]), "an average cannot be a member of itself"),
        (rerank(second="vse"), "rerank.mine.second = 'vse': must be another model than first"),
        (
            rerank(first="mine"),
            "rerank.mine.first = 'mine': has no scores; allowed are adapter, cca",
        ),
        (rerank(top=0), "rerank.mine.top = 0: must be"),
        (average(weights=[1]), "weights = [1.0]: must be 2 numbers, one for each member, or nul"),
        (average(weights=[1, 0]), "average_scores.mine.weights.1 = 0: must be greater than 0"),
        (average(normalize="z"), "unknown key; did you mean normalise?"),
        (average(members=["cca", "{x}"]), "'{x}': a name has letters, digits, _ and - alone"),
        (external(), "mine: has no key but folder; expected are either scores, with or without"),
        (external(**SCORES | PAIR), "mine: has scores, images, captions; expected are either sco"),
        (external(scores="no.npy"), "external.mine.scores = 'no.npy': no such file in ."),
        (external(folder="docs", scores="../x"), "'../x': must be the name of a file in docs"),
        (external(folder="gone", scores="a.npy"), "external.mine.folder = 'gone': no such file"),
        (
            {"more_models": {"clip": {}}},
            "more_models: 'clip' is no model; allowed are adapter, cca,",
        ),
        ({"more_models": {"adapter": {"hidden": 3}}}, "adapter.hidden = 3: unknown key"),
        ({"more_models": ["adapter"]}, "more_models = "),
        (external(score="a"), "external.mine.score = 'a': unknown key; did you mean scores?"),
        ({"average_scores": {"mine": 3}}, "must be a section with keys members, weights, norm"),
    ],
    ids=str,
)
def test_one_wrong_value_is_one_line(changes, words):
    text = problems(changed(**changes))
    assert words in text
    assert len(text.splitlines()) == 1


def test_a_value_of_one_model_wins_over_that_of_all():
    """Its own in the file, else its own default, else that of the section `training`."""
    values = changed(training__clip=0.5, training__precision="bf16", vse__training__clip=1.5)
    del values["two_branch"]["training"]["clip"]
    params = whole_type().model_validate(with_defaults(values))
    clips = {name: getattr(params, name).training.clip for name in inherited_keys(whole_type())}
    shared = dict.fromkeys(("adapter", "scan", "dp_rnn", "vse_infinity"), 0.5)
    assert clips == dict.fromkeys(inherited_keys(whole_type()), 0.0) | shared | {"vse": 1.5}
    assert {getattr(params, name).training.precision for name in inherited_keys(whole_type())} == {
        "bf16"
    }
    run = run_of(params)
    assert run.used("vse", params.vse)["vse"]["training"]["precision"] == "bf16"


@pytest.mark.parametrize(
    ("section", "item"),
    [("average_scores", AVERAGE), ("external", SCORES), ("rerank", RERANK)],
)
def test_wrong_names_of_score_files(section, item):
    for name in ("scan", "detector", "loss"):
        text = problems(changed(**{section: {name: item}}))
        own = f"{name} is a section of params.yaml; choose another name"
        assert text == f"{section}.{name}: {own}"
    for name in ("a b", "../x", "", "-S", "a@b"):
        text = problems(changed(**{section: {name: item}}))
        assert text == f"{section}: {name!r}: a name has letters, digits, _ and - alone"
    text = problems(changed(average_scores={"both": AVERAGE}, external={"both": SCORES}))
    assert text == "external.both: average_scores has this name; choose another"
    text = problems(changed(average_scores={"both": AVERAGE}, rerank={"both": RERANK}))
    assert text == "rerank.both: average_scores has this name; choose another"


@pytest.mark.parametrize(
    "content", [b"", b"- a list", b"loss: a\nloss: b\n", b"\xff\xfe\x00", b"[" * 5000]
)
def test_broken_yaml_is_a_plain_error(tmp_path, content):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(WorkbenchError) as caught:
        load_params(tmp_path / "params.yaml", models=None)
    assert "git checkout params.yaml" in str(caught.value)
    assert len(str(caught.value).splitlines()) <= 60


def test_scientific_numbers_as_dvc_writes_them(tmp_path):
    text = (ROOT / "params.yaml").read_text()
    (tmp_path / "params.yaml").write_text(text.replace("lr: 0.001", "lr: 1e-05"))
    assert load_params(tmp_path / "params.yaml", models=None).vse.training.lr == 1e-5


def test_a_corpus_is_called_by_its_folder_where_files_choose_the_reader():
    assert load_params(models=None).corpus_name == "shapes"
    automatic = load_params(models=None).model_copy(
        update={"dataset": "auto", "raw": "../raw/flickr8k/"}
    )
    assert automatic.corpus_name == "flickr8k"
