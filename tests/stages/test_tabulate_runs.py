"""`dvc exp show --csv | vse tabulate`: what is printed, and plain errors."""

from click.testing import CliRunner

from pipeline.evaluation.columns import COLUMNS, headings
from vse_workbench.commands.tabulate import main

HEAD = "Experiment,rev,typ,Created,parent,State,Executor,seed,vse.dim,"
NAMES = ",".join(f"metrics/vse.json:naive.{'.'.join(column.keys)}" for column in COLUMNS)


def figures(first, rsum):
    return ",".join(map(str, [*range(first, first + len(COLUMNS) - 1), rsum]))


TEXT = f"""{HEAD}{NAMES}
,workspace,baseline,,,,,0,8,{figures(1, 21)}
a,1,branch_commit,,,Success,Dvc-task,0,8,{figures(10, 210)}
b,2,branch_commit,,,Success,Dvc-task,1,8,{figures(20, 270)}
"""


def test_prints_an_aligned_table():
    result = CliRunner().invoke(main, ["--model", "vse", "--by", "vse.dim"], input=TEXT)
    assert result.exit_code == 0
    head, rule, row = result.stdout.splitlines()
    assert len(head) == len(rule) == len(row)
    assert [cell.strip() for cell in row.strip("|").split("|")][:3] == ["8", "2", "15.0 ± 7.1"]
    titles = [cell.strip() for cell in head.strip("|").split("|")]
    assert titles == ["dim", "runs", *headings(), "rsum - first row"]
