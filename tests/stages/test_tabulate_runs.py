"""`dvc exp show --csv | python -m stages.tabulate_runs`: what is printed, and plain errors."""

from click.testing import CliRunner

from stages.tabulate_runs import main

HEAD = "Experiment,rev,typ,Created,parent,State,Executor,seed,vse.dim,"
NAMES = ("i2t.r1", "i2t.r5", "i2t.r10", "t2i.r1", "t2i.r5", "t2i.r10", "rsum")
COLUMNS = ",".join(f"metrics/vse.json:naive.{name}" for name in NAMES)
TEXT = f"""{HEAD}{COLUMNS}
,workspace,baseline,,,,,0,8,1,2,3,4,5,6,21
a,1,branch_commit,,,Success,Dvc-task,0,8,10,20,30,40,50,60,210
b,2,branch_commit,,,Success,Dvc-task,1,8,20,30,40,50,60,70,270
"""


def test_prints_an_aligned_table():
    result = CliRunner().invoke(main, ["--model", "vse", "--by", "vse.dim"], input=TEXT)
    assert result.exit_code == 0
    head, rule, row = result.stdout.splitlines()
    assert len(head) == len(rule) == len(row)
    assert [cell.strip() for cell in row.strip("|").split("|")][:3] == ["8", "2", "15.0 ± 7.1"]


def test_other_input_is_a_plain_error():
    result = CliRunner().invoke(main, ["--model", "vse", "--by", "vse.dim"], input="a,b\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: not a list of experiments")
