"""A params.yaml of an earlier version: what is put in, what is moved, and that the rest stays."""

import copy
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline.runtime.completion import completed
from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import read_yaml

ROOT = Path(__file__).resolve().parents[3]
DEFAULT = (ROOT / "recipes/default.yaml").read_text()
KEY = re.compile(r"( *)(\w+):")


def places(text):
    """Key to (first line of its comments, line after its last), found by indentation alone."""
    lines, found, parents = text.splitlines(), {}, []
    for number, line in enumerate(lines):
        match = KEY.match(line)
        if not match or line.lstrip().startswith("#"):
            continue
        indent = len(match[1])
        parents = [*[p for p in parents if p[0] < indent], (indent, match[2])]
        start = number
        while start and lines[start - 1].strip().startswith("#"):
            start -= 1
        start -= bool(start and not lines[start - 1].strip())
        end = number + 1
        while end < len(lines) and re.match(rf" {{{indent + 1}}}|- |{' ' * indent}- ", lines[end]):
            end += 1
        while lines[end - 1].lstrip().startswith("#") or not lines[end - 1].strip():
            end -= 1  # comments of what follows, though they are indented as deep
        found[".".join(name for _, name in parents)] = (start, end)
    return found


def without(keys, text=DEFAULT):
    """A text without some keys and their comments."""
    lines, found = text.splitlines(keepends=True), places(text)
    gone = {number for key in keys for number in range(*found[key])}
    return "".join(line for number, line in enumerate(lines) if number not in gone)


def complete(folder, text, reference=DEFAULT, moved=()):
    """What becomes of a text, and what is said of it."""
    (folder / "params.yaml").write_bytes(text.encode())
    (folder / "default.yaml").write_bytes(reference.encode())
    return completed(folder / "params.yaml", folder / "default.yaml", dict(moved))


def load(text):
    return YAML(typ="safe", pure=True).load(text)


def below(values, prefix=""):
    """Dotted keys of all values and sections."""
    for name, value in values.items():
        yield f"{prefix}{name}"
        if isinstance(value, dict):
            yield from below(value, f"{prefix}{name}.")


KEYS = sorted(below(load(DEFAULT)))


def test_the_places_are_all_keys():
    assert {key for key in places(DEFAULT) if ".phases." not in key} == set(KEYS)


def test_a_whole_file_stays(tmp_path):
    assert complete(tmp_path, DEFAULT) == (DEFAULT, [])


@pytest.mark.parametrize("turn", range(8))
def test_missing_keys_come_back_to_the_byte(tmp_path, turn):
    """Every key is missing once, beside others."""
    keys = KEYS[turn::8]
    text, lines = complete(tmp_path, without(keys))
    assert text == DEFAULT
    gone = {leaf for key in keys for leaf in KEYS if leaf == key or leaf.startswith(f"{key}.")}
    leaves = {key for key in gone if not any(other.startswith(f"{key}.") for other in KEYS)}
    assert sorted(line.split(" = ")[0] for line in lines) == sorted(leaves)


OWN = """\
# mine

vse:
    # my note on training
    training:
        lr: 1e-3   # fast
        epochs: '7'
    dim: 0x10
    # the end

seed: 3 # three
"""
REFERENCE = """\
# Head

# A seed
seed: 0

# Of all
loss: sum

# The model
vse:
  # width
  dim: 256
  hidden: 128
  # of the optimiser
  training:
    # how long
    epochs: 15
    lr: 0.1
    clip:
    - 1
    - 2
  last: [a, b]

# Never seen
new:
  # inner
  key: {a: 1}
"""

SOME = sorted(below(load(REFERENCE.replace("{a: 1}", "1"))))


@given(st.lists(st.sampled_from(SOME), unique=True, max_size=len(SOME) - 1))
def test_any_missing_keys_come_back_to_the_byte(tmp_path_factory, keys):
    text = without(keys, REFERENCE)
    if load(text):
        assert complete(tmp_path_factory.getbasetemp(), text, REFERENCE)[0] == REFERENCE


def test_other_order_indentation_and_comments_are_kept(tmp_path):
    text, lines = complete(tmp_path, OWN, REFERENCE)
    made = iter(text.splitlines())
    assert all(line in made for line in OWN.splitlines())  # all there, in their order
    assert load(text) == {
        "vse": {
            "training": {"lr": 1e-3, "epochs": "7", "clip": [1, 2]},
            "dim": 16,
            "hidden": 128,
            "last": ["a", "b"],
        },
        "seed": 3,
        "loss": "sum",
        "new": {"key": {"a": 1}},
    }
    assert "\n    hidden: 128\n" in text
    assert "\n        clip:\n        - 1\n        - 2\n" in text
    assert "\n\n# Never seen\nnew:\n  # inner\n  key: {a: 1}\n" in text
    assert lines == [
        "loss = sum: inserted",
        "vse.hidden = 128: inserted",
        "vse.training.clip = [1, 2]: inserted",
        "vse.last = [a, b]: inserted",
        "new.key.a = 1: inserted",
    ]
    assert complete(tmp_path, text, REFERENCE) == (text, [])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_ends_of_lines_are_kept(tmp_path, end, last):
    text = end.join(["seed: 1", "vse:", "  dim: 2"]) + (end if last else "")
    made, _ = complete(tmp_path, text, "seed: 0\nvse:\n  dim: 1\n  hidden: 3\nlast: 4\n")
    assert made == end.join(["seed: 1", "vse:", "  dim: 2", "  hidden: 3", "last: 4", ""])


@pytest.mark.parametrize("empty", ["vse:", "vse:  # nothing", "vse:\n  # nothing"])
def test_an_empty_section_is_filled(tmp_path, empty):
    made, _ = complete(tmp_path, f"{empty}\nseed: 1\n", "vse:\n  dim: 1\nseed: 0\n")
    assert load(made) == {"vse": {"dim": 1}, "seed": 1}
    assert "nothing" not in empty or "nothing" in made


def test_a_value_in_place_of_a_section_is_left_to_the_check(tmp_path):
    assert complete(tmp_path, "vse: 3\n", "vse:\n  dim: 1\n") == ("vse: 3\n", [])


def test_keys_of_ones_own_are_left_to_the_check(tmp_path):
    text = "vse:\n  mine: 1\n  dim: 2\nother: {a: 1}\n"
    assert complete(tmp_path, text, "vse:\n  dim: 1\n") == (text, [])


MOVED = {
    "ranking.margin": ("vse.margin", "scan.margin"),
    "ranking": (),
    "old.gone": (),
}
NEW = """\
ranking:
  # how many
  k: 3
vse:
  # of vse
  margin: 0.2
  dim: 1
# SCAN
scan:
  # of scan
  margin: 0.2
"""


def test_a_value_is_carried_to_where_its_key_has_moved(tmp_path):
    old = "ranking:\n  # common\n  margin: 0.5\n  # how many\n  k: 9\nvse:\n  dim: 2\n"
    moved = {"ranking.margin": MOVED["ranking.margin"]}
    text, lines = complete(tmp_path, old, NEW, moved)
    assert text == (
        "ranking:\n  # how many\n  k: 9\n"
        "vse:\n  # of vse\n  margin: 0.5\n  dim: 2\n"
        "# SCAN\nscan:\n  # of scan\n  margin: 0.5\n"
    )
    assert lines == [
        "ranking.margin = 0.5: moved to vse.margin, scan.margin",
        "vse.margin = 0.5: inserted",
        "scan.margin = 0.5: inserted",
    ]
    assert complete(tmp_path, text, NEW, moved) == (text, [])


@pytest.mark.parametrize(("old", "new"), [("b", "[b]"), ("[b, c]", "[b, c]")])
def test_a_single_value_becomes_a_list_where_a_list_took_its_place(tmp_path, old, new):
    reference = "vse:\n  # which\n  names: [a]\n"
    text, lines = complete(
        tmp_path, f"vse:\n  name: {old}\n", reference, {"vse.name": ("vse.names",)}
    )
    assert text == f"vse:\n  # which\n  names: {new}\n"
    assert lines == [f"vse.name = {old}: moved to vse.names", f"vse.names = {new}: inserted"]


def test_a_key_whose_place_is_taken_stays(tmp_path):
    old = "ranking:\n  margin: 0.5\n  k: 9\nvse:\n  margin: 0.4\n  dim: 2\nscan:\n  margin: 1\n"
    assert complete(tmp_path, old, NEW, {"ranking.margin": MOVED["ranking.margin"]}) == (old, [])


@pytest.mark.parametrize(
    ("moved", "said", "left"),
    [
        ({"old.gone": ()}, ["old.gone = 7: removed"], "old:\n  # stays\n  on: 1\nvse:\n  dim: 2\n"),
        ({"old": ()}, ["old = {'gone': 7, 'on': 1}: removed"], "vse:\n  dim: 2\n"),
    ],
)
def test_a_key_that_is_read_no_more_goes(tmp_path, moved, said, left):
    old = "# why\nold:\n  # gone\n  gone: 7\n  # stays\n  on: 1\nvse:\n  dim: 2\n"
    text, lines = complete(tmp_path, old, "vse:\n  dim: 1\n", moved)
    assert text.removeprefix("# why\n") == left
    assert lines == said


def test_the_last_key_of_a_section_moves(tmp_path):
    old = "ranking:\n  margin: 0.5\nvse:\n  dim: 2\n"
    text, _ = complete(tmp_path, old, NEW, {"ranking.margin": MOVED["ranking.margin"]})
    assert load(text)["ranking"] == {"k": 3}


@pytest.mark.parametrize(
    "text",
    [
        "{seed: 1}\n",
        "seed: 1\nvse: {dim: 1}\n",
        "seed: 1\nvse: {}\n",
        "base: &b {dim: 1}\nvse: *b\nseed: 1\n",
        "base: &b\n  dim: 1\nvse: *b\nseed: 1\n",
        "base: &b\n  hidden: 9\nvse:\n  <<: *b\n  dim: 1\nseed: 1\n",
        "seed: 1\nvse: ~\n",
    ],
)
def test_forms_that_cannot_be_completed_are_named(tmp_path, text):
    with pytest.raises(WorkbenchError, match=r"params\.yaml") as caught:
        complete(tmp_path, text, "seed: 0\nvse:\n  dim: 1\n  hidden: 3\n")
    assert "run this again" in str(caught.value)


@pytest.mark.parametrize("content", [b"", b"- a", b"a: [", b"\xff\xfe", b"a: 1\na: 2\n"])
def test_broken_files_are_plain_errors(tmp_path, content):
    (tmp_path / "params.yaml").write_bytes(content)
    with pytest.raises(WorkbenchError):
        completed(tmp_path / "params.yaml", ROOT / "recipes/default.yaml", {})


@given(
    st.dictionaries(
        st.sampled_from(["seed", "vse", "loss", "new", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text("ab:#- \n'", max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(
                    st.sampled_from(["dim", "training", "lr", "y"]), inner, max_size=3
                )
            ),
            max_leaves=8,
        ),
        min_size=1,
    )
)
def test_whatever_the_file_says_it_says_afterwards(tmp_path_factory, values):
    """Any values as a YAML writer lays them out: completed with all of them kept, or refused."""
    folder = tmp_path_factory.getbasetemp()
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    with open(folder / "own.yaml", "w") as file:
        yaml.dump(values, file)
    try:
        text, _ = complete(folder, (folder / "own.yaml").read_text(), REFERENCE)
    except WorkbenchError:
        return
    assert covers(load(text), values)


def covers(made, values):
    """Whether all that was said is still said; an empty section may have been filled."""
    if not isinstance(values, dict):
        return made == values or (values is None and isinstance(made, dict))
    return isinstance(made, dict) and all(
        name in made and covers(made[name], value) for name, value in values.items()
    )


def test_the_reference_is_not_touched(tmp_path):
    before = copy.deepcopy(read_yaml(ROOT / "recipes/default.yaml"))
    complete(tmp_path, without(["vse"]))
    assert read_yaml(ROOT / "recipes/default.yaml") == before


@pytest.mark.parametrize("written", ["{}", "\n  mine: {members: [a, b]}"])
def test_names_that_the_user_chose_are_left_as_they_are(tmp_path, written):
    """The defaults' own entries are put in with the whole section, and with nothing else."""
    reference, params = tmp_path / "default.yaml", tmp_path / "params.yaml"
    reference.write_text("loss: a\n# named\naverage_scores:\n  one: {members: [c, d]}\nseed: 0\n")
    text = f"loss: b\naverage_scores: {written}\n"
    params.write_text(text)
    expected = f"{text}seed: 0\n", ["seed = 0: inserted"]
    assert completed(params, reference, {}, ["average_scores"]) == expected
    params.write_text("loss: b\nseed: 0\n")
    whole = completed(params, reference, {}, ["average_scores"])[0]
    assert whole == reference.read_text().replace("loss: a", "loss: b")


def test_an_empty_section_of_such_names_is_put_in_and_said(tmp_path):
    reference, params = tmp_path / "default.yaml", tmp_path / "params.yaml"
    reference.write_text("loss: a\n# named\nexternal: {}\nseed: 0\n")
    params.write_text("loss: a\nseed: 0\n")
    expected = reference.read_text(), ["external = {}: inserted"]
    assert completed(params, reference, {}, ["external"]) == expected
