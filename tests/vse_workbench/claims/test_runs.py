"""Which process takes which run."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier, Event
from types import SimpleNamespace

from claim_cases import kept, ledger, planned, row

from vse_workbench.claims.runs import Runs


def test_a_process_that_waits_for_a_search_takes_seeds_after_it(tmp_path):
    looked, both = Event(), Barrier(2, timeout=20)

    class Trial(Runs):
        def lacking(self):
            if self.running:  # by the process that finds nothing to begin
                looked.set()
            return super().lacking()

        def one(self, job, folder):
            assert looked.wait(20)
            if job.seed in (1, 2):
                both.wait()
            self.kept.rows.append(row("searched", job.seed, factor=job.point.factor, val_rsum=50.0))

    rows = [row("searched", 0, factor=factor) for factor in (0.5, 1.0)]
    runs = Trial(SimpleNamespace(ledger=ledger()), [planned("searched")], kept(tmp_path, rows))
    with ThreadPoolExecutor(2) as pool:
        list(pool.map(runs.work, [SimpleNamespace(begun="")] * 2))
    seeds = sorted(one.seed for one in runs.kept.rows)
    assert (runs.failed, seeds) == ([], [0, 0, 0, 1, 2, 3])
