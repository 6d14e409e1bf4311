"""Other values in a YAML file: what is said, and that comments and lines of the rest stay."""

import copy
import re
from contextlib import suppress

import pytest
from corpora import ROOT, holder
from hypothesis import given, settings
from hypothesis import strategies as st
from ruamel.yaml import YAML

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.rewriting import rewritten_yaml
from pipeline.runtime.yaml_text import read_yaml

TEXT = (ROOT / "params.yaml").read_text()
VALUES = read_yaml(ROOT / "params.yaml")
LINE = re.compile(r"( *)(\w+):(.*?)(  #.*)?$")


def load(text):
    return YAML(typ="safe", pure=True).load(text)


def below(values, prefix=()):
    for name, value in values.items():
        yield (*prefix, name)
        if isinstance(value, dict):
            yield from below(value, (*prefix, name))


PATHS = sorted(below(VALUES))


def with_value(path, value):
    values = copy.deepcopy(VALUES)
    holder(values, path)[path[-1]] = value
    return values


def comments(text):
    return re.findall(r"#.*", text)


def test_a_changed_value_changes_its_line_alone():
    """Every thirtieth key; its line is found by eye: indentation, name, value, comment."""
    for path in PATHS[::30]:
        if isinstance(holder(VALUES, path)[path[-1]], dict) or path[-1] == "phases":
            continue
        made = rewritten_yaml(TEXT, with_value(path, 12345), "p").splitlines()
        old = TEXT.splitlines()
        place = next(n for n, line in enumerate(made) if line != old[n])
        items = len(old) - len(made)  # of a list
        assert made[place + 1 :] == old[place + items + 1 :]
        indent, name, _, comment = LINE.match(old[place]).groups()
        if name == path[-1]:
            assert made[place] == f"{indent}{name}: 12345{comment or ''}"
        else:  # of a mapping in braces, whose line it is
            assert name == path[-2]
            assert comments(made[place]) == comments(old[place])
        assert rewritten_yaml("\n".join(made) + "\n", VALUES, "p") == TEXT, path


@settings(max_examples=5)
@given(st.lists(st.sampled_from(PATHS), unique=True, max_size=40))
def test_whatever_is_missing_comes_back(paths):
    values = copy.deepcopy(VALUES)
    for path in paths:
        node = values
        for name in path[:-1]:
            node = node.get(name, {})
        node.pop(path[-1], None)
    text = rewritten_yaml(TEXT, values, "p")
    assert load(text) == values
    again = rewritten_yaml(text, VALUES, "p")
    assert load(again) == VALUES
    assert rewritten_yaml(again, VALUES, "p") == again
    there = iter(comments(TEXT))
    assert all(comment in there for comment in comments(text))  # in the same order


def test_a_removed_key_takes_its_comments_with_it():
    head, a, b, c, d = (
        "# h\n",
        "\n# of a\na: 1\n",
        "\n# of b\nb:\n",
        "  # c\n  c: 1\n",
        "  d: 2 # two\n",
    )
    text, end = head + a + b + c + d + "\n# end\n", "\n# end\n"
    assert rewritten_yaml(text, {"b": {"c": 1}}, "p") == head + b + c + end
    assert rewritten_yaml(text, {"a": 1, "b": {"d": 2}}, "p") == head + a + b + d + end
    assert rewritten_yaml(text, {"a": 1}, "p") == head + a + end


def test_a_new_key_stands_behind_the_one_before_it():
    text = "# of a\na: 1\n\n# of b\nb:\n    # of d\n    d: 2\n    # the end\n\n# of e\ne: 3\n"
    section = {"c": [1, [2]], "d": 2, "x": {"y": True}}
    values = {"a": 1, "n": None, "m": 0, "b": section, "e": 3, "z": "s", "s": {"t": 1}}
    assert rewritten_yaml(text, values, "p") == (
        "# of a\na: 1\nn:\nm: 0\n\n# of b\nb:\n    c:\n    - 1\n    - - 2\n    # of d\n    d: 2\n"
        "    x:\n      y: true\n    # the end\n\n# of e\ne: 3\nz: s\n\ns:\n  t: 1\n"
    )


def test_what_stands_in_braces_stays_there():
    text = "# a\na: {b: 1, c: {d: 2}}  # of a\n\n# e\ne: 1\n"
    made = rewritten_yaml(text, {"a": {"b": 1, "c": {"d": [3], "x": 0.5}}, "e": 1}, "p")
    assert made == "# a\na: {b: 1, c: {d: [3], x: 0.5}}  # of a\n\n# e\ne: 1\n"
    wide = {"b": 1, "c": {"d": "x" * 99}}
    made = rewritten_yaml(text, {"a": wide, "e": 1}, "p")
    assert made == f"# a\na:  # of a\n  b: 1\n  c:\n    d: {'x' * 99}\n\n# e\ne: 1\n"
    assert rewritten_yaml("{a: 1}\n", {"a": 2, "b": 3}, "p") == "a: 2\nb: 3\n"


@pytest.mark.parametrize("old", ["[a, b]", "\n  - a\n  - {b: 1}", "null", "3", "{}", "{x: 1}"])
@pytest.mark.parametrize("new", [["c"], [{"d": {"e": 1}}], None, 3, {}, {"y": {"z": 2}}])
def test_any_value_for_any_other(old, new):
    text = f"# of a\na: {old}\n\n# of b\nb: 1\n"
    made = rewritten_yaml(text, {"a": new, "b": 1}, "p")
    assert load(made) == {"a": new, "b": 1}
    assert made.startswith("# of a\na:")
    assert made.endswith("\n\n# of b\nb: 1\n")


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("last", [True, False])
def test_ends_of_lines_are_kept(end, last):
    text = end.join(["seed: 1", "vse:", "  dim: 2"]) + (end if last else "")
    made = rewritten_yaml(text, {"seed": 1, "vse": {"dim": 2, "hidden": 3}, "last": 4}, "p")
    assert made == end.join(["seed: 1", "vse:", "  dim: 2", "  hidden: 3", "last: 4", ""])


@pytest.mark.parametrize("text", ["a: &b\n  dim: 1\nvse: *b\n", "a: {dim: 1}\n? vse\n: dim: 1\n"])
def test_forms_that_cannot_be_changed_are_named(text):
    with pytest.raises(WorkbenchError, match="p: its form") as caught:
        rewritten_yaml(text, {"a": {"dim": 1}, "vse": {"dim": 7}}, "p")
    assert "run this again" in str(caught.value)


@given(
    st.dictionaries(
        st.sampled_from(["seed", "vse", "loss", "new", "x"]),
        st.recursive(
            st.none() | st.integers() | st.text("ab:#- \n'", max_size=8),
            lambda inner: (
                st.lists(inner, max_size=3)
                | st.dictionaries(st.sampled_from(["dim", "lr", "y"]), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        min_size=1,
    ),
    st.dictionaries(
        st.sampled_from(["seed", "vse", "n"]),
        st.integers() | st.dictionaries(st.sampled_from(["dim", "y"]), st.text(max_size=3)),
        min_size=1,
    ),
)
def test_any_file_says_what_it_should_or_is_refused(tmp_path_factory, before, after):
    file = tmp_path_factory.getbasetemp() / "any.yaml"
    with file.open("w") as out:
        YAML().dump(before, out)
    with suppress(WorkbenchError):
        assert load(rewritten_yaml(file.read_text(), after, "p")) == after
