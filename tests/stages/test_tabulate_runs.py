"""`dvc exp show --csv | python -m stages.tabulate_runs`: what is printed, and plain errors."""

from click.testing import CliRunner

from stages.tabulate_runs import main

HEAD = "Experiment,rev,typ,Created,parent,State,Executor,seed,vse.dim,"
NAMES = ("r1", "r5", "r10", "medr", "meanr", "mapr")
KEYS = [*(f"{way}.{name}" for way in ("i2t", "t2i") for name in NAMES), "rsum"]
COLUMNS = ",".join(f"metrics/vse.json:naive.{key}" for key in KEYS)
TEXT = f"""{HEAD}{COLUMNS}
,workspace,baseline,,,,,0,8,1,2,3,9,9,1,4,5,6,9,9,1,21
a,1,branch_commit,,,Success,Dvc-task,0,8,10,20,30,4,5,6,40,50,60,3,4,7,210
b,2,branch_commit,,,Success,Dvc-task,1,8,20,30,40,2,3,8,50,60,70,1,2,9,270
"""


def test_prints_an_aligned_table():
    result = CliRunner().invoke(main, ["--model", "vse", "--by", "vse.dim"], input=TEXT)
    assert result.exit_code == 0
    head, rule, row = result.stdout.splitlines()
    assert len(head) == len(rule) == len(row)
    assert [cell.strip() for cell in row.strip("|").split("|")][:3] == ["8", "2", "15.0 ± 7.1"]
    assert [cell.strip() for cell in head.strip("|").split("|")][7::6] == ["mAP@R", "mAP@R"]


def test_other_input_is_a_plain_error():
    result = CliRunner().invoke(main, ["--model", "vse", "--by", "vse.dim"], input="a,b\n")
    assert result.exit_code == 1
    assert result.stderr.startswith("error: not a list of experiments")
