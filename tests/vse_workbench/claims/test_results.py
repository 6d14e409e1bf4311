"""The kept table: what comes out as it went in, and wrong tables."""

import pytest
from claim_cases import row, state

from pipeline.runtime.errors import WorkbenchError
from vse_workbench.claims.results import KEYS, read_rows, read_states, write_rows, write_states

ROWS = [row("narrow", 1, 31.1234), row("wide", 10), row("wide", 2, factor=0.3)]


def test_rows_and_states_come_back(tmp_path):
    bare = row("narrow", 3, figures={"rsum": 12.5})  # other figures stay away
    write_rows(tmp_path / "t.tsv", [*ROWS, bare])
    assert read_rows(tmp_path / "t.tsv") == [*ROWS, bare]
    states = [state(*ROWS), state(bare, commit="f" * 12)]
    write_states(tmp_path / "s.tsv", states)
    assert read_states(tmp_path / "s.tsv") == states
    (tmp_path / "s.tsv").write_text("e\td.c\nf")
    with pytest.raises(WorkbenchError, match="not a table of the code of kept runs"):
        read_states(tmp_path / "s.tsv")


HEAD = "\t".join((*KEYS, "rsum")) + "\n"
LINE = "wide\tworld\t1\t0.5\t0\td\tc\tx\t\te\t2.5\t99.5\t4\t7\t30\t\t3.25\n"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (HEAD.replace("cap", "c") + LINE, "line 2: cap: Field required"),
        (HEAD + LINE.replace("\t1\t", "\tx\t"), "line 2: seed: Input should be a valid integer"),
        (HEAD + LINE.replace("3.25", "nan"), "line 2: rsum: Input should be a finite number"),
        (HEAD + LINE.replace("0.5", "0.0"), "line 2: factor: Input should be greater than 0"),
        (HEAD + LINE.replace("2.5", "inf"), "line 2: minutes: Input should be a finite number"),
        (HEAD + LINE + LINE.replace("3.25", "4"), "two lines of wide on world, seed 1, factor 0.5"),
        (HEAD + LINE.replace("wide", "br\xfcte"), "line 2: not UTF-8 .byte 0xfc"),
    ],
)
def test_wrong_tables_are_refused(tmp_path, text, told):
    (tmp_path / "t.tsv").write_text(text, encoding="latin-1")
    with pytest.raises(WorkbenchError, match=told):
        read_rows(tmp_path / "t.tsv")
