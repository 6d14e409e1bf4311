"""YAML from outside: the values a parser gives, and nothing that unfolds to millions."""

import pytest
from corpora import ROOT
from ruamel.yaml import YAML
from ruamel.yaml.main import CParser

from pipeline.runtime.errors import WorkbenchError
from pipeline.runtime.yaml_text import plain_yaml

LAUGH = "".join(
    f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9) if n else 'x, x, x'}]\n" for n in range(9)
)
MERGED = "a0: &a0 {k: v}\n" + "".join(
    f"a{n}: &a{n}\n  <<: [{', '.join([f'*a{n - 1}'] * 9)}]\n" for n in range(1, 9)
)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LAUGH, "more than 20,000 keys and values, aliases unfolded"),
        (MERGED, "more than 20,000 keys and values, aliases unfolded"),
        ("k: 1\n" * 60_000, "300,000 characters; allowed are 262,144"),
        ("[" * 5000 + "]" * 5000, "not valid YAML"),
        ("[{a: " * 60, "more than 100 brackets are open at once"),
        ("a: &a [*a]", "more than 20,000 keys and values, aliases unfolded"),
        ("a: *b", "not valid YAML: found undefined alias 'b'"),
        ("a: [", "not valid YAML"),
        ("a: !!python/object/apply:os.system [ls]", "not valid YAML"),
        ("? [a]\n: 1\n? {b: c}\n: 2\n<<: 3", "not valid YAML"),
        ("a: 2024-99-99", "not valid YAML"),
        ("%YAML 9", "not valid YAML"),
        ("a: 1\na: 2", "not valid YAML"),
        ("\x00", "not valid YAML"),
    ],
)
def test_what_no_settings_are_is_a_plain_error(text: str, message: str) -> None:
    with pytest.raises(WorkbenchError, match=f"^f.yaml.*{message}"):
        plain_yaml(text, "f.yaml")


@pytest.mark.parametrize(
    "text",
    ["", "a: 1\nb: [1.5, x, null, true]\n", "a: &a {k: v}\nb: {<<: *a, l: *a}\n", "- &x 1\n- *x\n"],
)
def test_other_texts_have_the_values_of_the_parser(text: str) -> None:
    assert plain_yaml(text, "f.yaml") == YAML(typ="safe", pure=True).load(text)


SCALARS = "1e-3 1E3 yes NO on 010 0o10 0x1F 1_000 12:30 2020-01-01 ~ .5 1. +1 .inf '1'"


@pytest.mark.parametrize("name", ["params.yaml", "dvc.yaml", "scalars"])
def test_dvc_reads_the_same_values_with_a_parser_in_c(name: str) -> None:
    """`safe` without `pure`, as DVC asks for it: in C alone where ruamel.yaml.clib is installed."""
    assert CParser is not None
    scalars = "".join(f"- {scalar}\n" for scalar in SCALARS.split())
    text = scalars if name == "scalars" else (ROOT / name).read_text()
    ours, its = YAML(typ="safe", pure=True).load(text), YAML(typ="safe").load(text)
    assert repr(its) == repr(ours)  # 1, 1.0 and True are equal


def test_what_one_reader_changes_no_other_sees():
    plain_yaml("a: [1]", "x")["a"].append(2)
    assert plain_yaml("a: [1]", "x") == {"a": [1]}
