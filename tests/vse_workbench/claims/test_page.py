"""Every number of docs/claims.md, README's line and the picture, computed again with other code."""

import json
import re
from collections import Counter
from contextlib import chdir
from pathlib import Path
from statistics import mean, stdev
from xml.etree import ElementTree

import numpy as np
import pytest
from click.testing import CliRunner
from clone import ROOT
from scipy import optimize, stats

from vse_workbench.claims.ledger import (
    FIGURES,
    SEARCH_SEEDS,
    judging_seeds,
    read_ledger,
    resolved_setting,
    search_on,
    seeds_of,
)
from vse_workbench.claims.ranks import KeptRanks, write_ranks
from vse_workbench.claims.results import Row, State, read_kept, write_rows, write_states
from vse_workbench.commands import claims_judge

NUMBER = r"[-+]?[\d,]*\.?\d+(?:e-\d+)?"
CELL = re.compile(
    rf"\*\*(?P<word>[a-z ]+)\*\*<br>(?P<mean>{NUMBER}) \((?P<low>{NUMBER}) to (?P<high>{NUMBER})\)"
    rf"<br>(?:(?P<share>{NUMBER}) %)?(?:, )?(?:p (?P<p>< 0.001|{NUMBER}) of (?P<family>\d+))?"
    r"(?:<br>)?"
    r"n (?P<n>\d+)(?P<alone> alone)?, (?P<cost>\d+) min"
    r"(?:<br>R@1 (?P<r1>[\d., ]+) against (?P<other_r1>[\d., ]+))?"
)
MEASURED = {
    "holds",
    "reversed",
    "smaller",
    "no difference",
    "undecided",
    "not comparable",
    "not converged",
    "collapsed",
}


def published(first, second, figures):
    return {"published": {"on": "X", "first": [first] * figures, "second": [second] * figures}}


# first and second setting, measure, and what else a claim has
INVENTED = {
    "ahead": ("good", "fair", "rsum", published(1.0, 9.0, 6)),
    "behind": ("fair", "good", "meanr_fall", {}),
    "alike": ("fair", "same", "rsum", published(99.0, 9.0, 6)),
    "unsure": ("fair", "same", "less", published(3.0, 4.5, 2)),
    "no_gain": ("fair", "good", "less", {"at_most": 40.0}),
    "small": ("good", "fair", "rsum", {"within": 2.0, "paper": "Another"}),
    "late": ("late", "fair", "rsum", {"paper": "Another"}),
    "chance": ("good", "lost", "rsum", published(9.0, 1.0, 6) | {"paper": "Another"}),
    "unlearnt": ("good", "lost", "rsum", {"paper": "Another"}),
    "sized": ("good", "fair", "rsum", {"at_least": 20.0}),
    "less_than_said": ("good", "fair", "rsum", {"at_least": 500.0}),
    "searched_on": ("good", "edgy", "rsum", {}),
    "winner_searched_on": ("edgy", "poor", "rsum", {}),
    "twins": ("good", "twin", "rsum", published(99.0, 9.0, 6)),
    "left": ("good", "fair", "rsum", {"withdrawn": "It was of no use."}),
    "nothing": ("lost", "lost_too", "rsum", {"paper": "Another"}),
    "median": ("good", "fair", "medr_fall", {}),
    "large": ("good", "fair", "rsum", {"needs": {"train_images": 100}}),
    "elsewhere": ("good", "fair", "rsum", {"datasets": ["moon"]}),
    "nowhere": ("good", "fair", "rsum", {"datasets": []}),
}
QUALITY = {
    "good": 0.5,
    "fair": 0.3,
    "same": 0.3,
    "late": 0.4,
    "lost": 0.01,
    "lost_too": 0.01,
    "edgy": 0.3,
    "poor": 0.15,
    "twin": 0.5,
}
CONTENT = {
    "seeds": [1, 2, 3],
    "search": {"factors": [0.5, 1.0, 2.0], "keys": {"vse": ["vse.training.lr"]}},
    "measures": {
        "rsum": [f"{way}.r{k}" for way in ("i2t", "t2i") for k in (1, 5, 10)],
        "less": ["t2i.r1", "-i2t.r1"],
        "meanr_fall": ["-i2t.meanr", "-t2i.meanr"],
        "medr_fall": ["-i2t.medr"],
    },
    "datasets": {
        "world": {"title": "the world", "drawn": True, "has": {"train_images": 9}},
        "moon": {"title": "the moon", "has": {"train_images": 900}},
    },
    "settings": {name: {"model": "vse"} for name in QUALITY},
    "claims": {
        name: {
            "paper": "A paper",
            "place": "table 1",
            "says": f"It is {name}.",
            "first": first,
            "second": second,
            "measure": measure,
            "datasets": ["world"],
        }
        | more
        for name, (first, second, measure, more) in INVENTED.items()
    },
}


def invented(ledger, folder, qualities, dataset):
    """Runs of all seeds, and one of the search, with ranks (Q,) that are drawn at random."""
    rows, random, good = [], np.random.default_rng(1), {}
    for setting, quality in qualities.items():
        chosen = 2.0 if setting == "edgy" else 1.0
        seeds = [(seed, chosen) for seed in seeds_of(ledger, setting, dataset)]
        is_searched = resolved_setting(ledger, setting).model in ledger.search.keys
        factors = ledger.search.factors if is_searched else []
        for seed, factor in [*((0, factor) for factor in factors), *seeds]:
            outcome = "collapsed" if quality < 0.02 else ""
            images = {"i2t": np.arange(120), "t2i": np.arange(240) // 2, "phrases": np.arange(120)}
            ranks = {way: random.geometric(quality, len(of)) for way, of in images.items()}
            if setting == "good":
                good[seed] = ranks
            if setting == "twin":  # as good but for one caption
                ranks = {way: own.copy() for way, own in good[seed].items()}
                ranks["t2i"][seed] = 11
            figures = {}
            for way, of in ranks.items():
                figures |= {f"{way}.r{k}": 100.0 * np.mean(of <= k) for k in (1, 5, 10)}
                figures |= {f"{way}.meanr": of.mean(), f"{way}.medr": float(np.median(of))}
            figures = {name: figures.get(name, random.normal(90 * quality)) for name in FIGURES}
            best = 28 if setting == "late" else 9
            validation = 2.0 if factor == chosen else 1.0
            row = Row(
                setting,
                dataset,
                seed,
                factor,
                0,
                setting,
                "c",
                "k",
                "",
                "a" * 12,
                7.3,
                validation,
                best,
                30,
                30,
                outcome,
                figures,
            )
            rows.append(row)
            if not outcome:
                write_ranks(folder / row.ranks, KeptRanks(ranks, images))
    return rows


def judge(folder, rows):
    """Write what is kept, and run the command."""
    write_rows(folder / "docs/claims.tsv", rows)
    write_states(folder / "docs/claims_code.tsv", [State("b" * 12, frozenset(r.key for r in rows))])
    with chdir(folder):
        done = CliRunner().invoke(claims_judge.main, catch_exceptions=False)
    assert done.exit_code == 0, done.output


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A folder with runs of all but one of the claims' settings, and what the command wrote."""
    folder = tmp_path_factory.mktemp("claims")
    (folder / "claims.yaml").write_text(json.dumps(CONTENT))
    (folder / "README.md").write_text(
        "# A\n\n<!-- claims -->\nold\n<!-- /claims -->\n\nThe rest.\n"
    )
    ledger = read_ledger(folder / "claims.yaml")
    judge(folder, invented(ledger, folder / "docs/claims_ranks", QUALITY, "world"))
    return folder


def test_a_full_page_has_every_verdict_and_every_number(full):
    cells = checked(full)
    words = {name: cell["word"] for (name, _), cell in cells.items()}
    assert words == {
        "ahead": "holds",
        "behind": "reversed",
        "alike": "undecided",
        "unsure": "undecided",
        "no_gain": "holds",
        "small": "reversed",
        "late": "not converged",
        "chance": "holds",
        "nothing": "collapsed",
        "median": "holds",
        "large": "premise not met",
        "elsewhere": "not run",
        "unlearnt": "not comparable",
        "sized": "holds",
        "less_than_said": "smaller",
        "searched_on": "not converged",
        "winner_searched_on": "holds",
        "left": "withdrawn",
        "twins": "no difference",
    }


def test_the_picture_has_every_interval_on_its_side_of_zero(full):
    """Paths with the width of an interval: from which x to which, against the line at 0."""
    drawn = ElementTree.parse(full / "docs/claims.svg")
    ledger, kept = read_ledger(full / "claims.yaml"), read_kept(full / "docs/claims.tsv")
    cells = {name: cell for (name, _), cell in judged(ledger, kept).items() if "mean" in cell}
    texts = [each.text for each in drawn.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(text for text in texts if text in ledger.claims) == sorted(cells)
    assert {"A paper", "Another", "the world", "published"} <= set(texts)
    lines = [path for path in drawn.iter("{http://www.w3.org/2000/svg}path") if path.get("style")]

    def ends(word):
        found = [line.get("d") for line in lines if word in line.get("style")]
        return [[float(x) for x in re.findall(r"[ML] ([-\d.]+)", one)] for one in found]

    intervals = sorted(ends("stroke-width: 1.4"))
    zero = ends("stroke: #333333")[0][0]
    assert len(intervals) == len(cells)
    limits = sorted((cell["low"], cell["high"]) for cell in cells.values())
    assert [[x > zero for x in each] for each in intervals] == [[x > 0 for x in e] for e in limits]


def test_the_page_and_the_readme_are_what_the_command_writes(tmp_path, monkeypatch):
    checked(ROOT)
    monkeypatch.chdir(tmp_path)
    Path("docs").mkdir()
    for path in (ROOT / "claims.yaml", *(ROOT / "docs").glob("claims_*"), ROOT / "docs/claims.tsv"):
        Path(path.relative_to(ROOT)).symlink_to(path)
    Path("README.md").write_text((ROOT / "README.md").read_text())
    assert CliRunner().invoke(claims_judge.main).exit_code == 0
    for name in ("docs/claims.md", "README.md"):
        assert Path(name).read_text() == (ROOT / name).read_text(), "run: vse claims judge"
    charts = [(folder / "docs/claims.svg").exists() for folder in (tmp_path, ROOT)]
    assert charts == 2 * ["](claims.svg)" in (ROOT / "docs/claims.md").read_text()]


def close(shown, exact, decimals):
    """Whether a number is what another one is when it is rounded."""
    return float(shown) == pytest.approx(exact, abs=0.5 * 10**-decimals + 1e-9)


def tables(text):
    """Rows of all tables of a document, as lists of cells, by the heading above them."""
    found, heading = {}, ""
    for line in text.splitlines():
        heading = line.lstrip("# ") if line.startswith("#") else heading
        if line.startswith("|") and not line.startswith("|-"):
            found.setdefault(heading, []).append([part.strip() for part in line.split("|")[1:-1]])
    return found


def total(measure, value):
    return sum(-value(f[1:]) if f[0] == "-" else value(f) for f in measure)


def other_images(measure, pairs, folder):
    """Deviation of the mean difference over other images, without what the seeds' deviation has, by
    a two-way analysis of variance; ValueError for a measure that is no mean over queries."""
    names = [run.ranks for pair in pairs for run in pair]
    files = {name: np.load(folder / name) for name in names if (folder / name).exists()}
    if not files:
        return None
    shape = next(iter(files.values()))
    images = 1 + max(int(shape[name].max()) for name in shape.files if name.endswith(".images"))
    each = np.zeros((len(pairs), images))
    for figure in measure:
        (way, kind), sign = figure.lstrip("-").split("."), -1 if figure[0] == "-" else 1
        of, top = shape[f"{way}.images"], None if kind == "meanr" else int(kind[1:])
        for number, pair in enumerate(pairs):
            for side, run in enumerate(pair):
                if run.ranks not in files:  # a collapse that made none is the same for all images
                    continue
                ranks = files[run.ranks][way].astype(float)
                values = ranks if top is None else 100.0 * ((ranks > 0) & (ranks <= top))
                each[number] += sign * (-1) ** side * by_image(values - values.mean(), of, images)
    n, each = len(pairs), each * images
    left = each - each.mean(0) - each.mean(1, keepdims=True) + each.mean()
    left_over = (left**2).sum() / (n - 1) / (images - 1)
    squared = each.mean(0).var(ddof=1) / images - left_over / (n * images)
    return float(max(squared, 0.0)) ** 0.5


def by_image(values, of, images):
    """Sums of values (Q,) over the queries of each image, (G,), as shares of all Q."""
    sums = np.zeros(images)
    np.add.at(sums, of, values)
    return sums / len(values)


def by_chance(measure, runs, folder):
    """Recalls of random rankings, 0 for other measures."""
    file = next(
        (np.load(folder / run.ranks) for run in runs if (folder / run.ranks).exists()), None
    )
    total, shapes = 0.0, [re.fullmatch(r"(i2t|t2i)\.r(1|5|10)", figure) for figure in measure]
    if file is None or not all(shapes):
        return 0.0
    for way, kind in (shape.groups() for shape in shapes):
        items = file["t2i.images" if way == "i2t" else "i2t.images"]
        often, queries = Counter(items.tolist()), Counter(file[f"{way}.images"].tolist())
        for image, count in queries.items():
            true, misses = often[image], 1.0
            for place in range(int(kind)):
                misses *= (len(items) - true - place) / (len(items) - place)
            total += 100 * (1 - misses) * count / sum(queries.values())
    return total


def in_paper(claim, measure):
    """A measure of both settings in the paper, 0 where it has no figures."""
    if claim.published is None:
        return 0, 0
    names = [figure.lstrip("-") for figure in measure]
    sides = claim.published.first, claim.published.second
    return [total(measure, dict(zip(names, side, strict=True)).get) for side in sides]


def judged(ledger, kept):
    """By claim and dataset what the page must show, with nothing of what computes the page."""
    tried = [(name, claim, on) for name, claim in ledger.claims.items() for on in claim.datasets]
    found = {(name, on): once(ledger, kept, claim, on) for name, claim, on in tried}
    judged = sorted((cell["p"], key) for key, cell in found.items() if "p" in cell)
    least = 1.0
    for rank, (p, key) in reversed(list(enumerate(judged, 1))):  # Benjamini and Hochberg
        least = min(least, p * len(judged) / rank)
        cell, claim = found[key], ledger.claims[key[0]]
        cell |= {"corrected": least, "family": len(judged)}
        cell["word"], beyond = word_of(cell, claim, least <= 0.05)
        if any(cell["at_edge"][side] for side in beyond):
            cell["word"] = "not converged"
    for (_, on), cell in found.items():
        is_drawn = ledger.datasets[on].drawn and cell["word"] in MEASURED
        cell["label"] = cell["word"] + (" on drawn scenes" if is_drawn else "")
    return found


def word_of(cell, claim, is_sure):
    """The word, and which sides would have to be no better for it to stand."""
    mean, is_ahead = cell["mean"], not claim.within and not claim.at_most
    if is_ahead and max(-cell["low"], cell["high"]) < cell["interest"]:
        return "no difference", (0, 1)
    if not is_sure:
        return "undecided", ()
    if claim.within:
        return ("holds", (0, 1)) if abs(mean) < claim.within else ("reversed", (mean > 0,))
    if claim.at_most:
        return ("holds", (0,)) if mean < claim.at_most else ("reversed", (1,))
    if mean > (claim.at_least or 0):
        return "holds", (1,)
    return ("reversed", (0,)) if mean < 0 else ("smaller", (0, 1))


def carried(kept):
    """Older code by the newest that has made two or more of its runs again, all with its ranks."""
    found = {}
    for number, old in enumerate(kept.rows):
        later = [row for row in kept.rows[number + 1 :] if row.run == old.run and row.seed]
        if later:
            files = [np.load(kept.ranks / row.ranks) for row in (old, later[0])]
            is_same = all((files[0][name] == files[1][name]).all() for name in files[0].files)
            found.setdefault((old.code, later[0].code), []).append(is_same)
    return {old: new for (old, new), same in found.items() if all(same) and len(same) > 1}


def once(ledger, kept, claim, dataset):
    sides = claim.first, claim.second
    if claim.withdrawn:
        return {"word": "withdrawn", "why": claim.withdrawn}
    has = [ledger.datasets[dataset].has | resolved_setting(ledger, side).has for side in sides]
    for key, need in claim.needs.items():
        for there in [there[key] for there in has if key in there] or [None]:
            is_met = there >= need if isinstance(there, int) else there == need
            if not is_met:
                return {"word": "premise not met", "why": f"needs {key} {need}, "}
    measure, seeds = ledger.measures[claim.measure], judging_seeds(ledger, claim, dataset)
    codes = carried(kept)
    for state in reversed(kept.states):
        known = {(key[:-13], codes.get(key[-12:], key[-12:])) for key in state.keys}
        known |= {tuple(key.rsplit(".", 1)) for key in state.keys}
        own = [row for row in kept.rows if row.dataset == dataset]
        here = [row for row in own if (row.digest, codes.get(row.code, row.code)) in known]
        runs = {(row.setting, row.seed): row for row in here}
        wanted = [(side, seed) for side in sides for seed in seeds]
        if runs.keys() >= set(wanted):
            break
    else:
        return {"word": "not run"}
    pairs = [(runs[claim.first, seed], runs[claim.second, seed]) for seed in seeds]
    values = [[total(measure, run.figures.get) for run in pair] for pair in pairs]
    differences, n = [a - b for a, b in values], len(seeds)
    try:
        q = other_images(measure, pairs, kept.ranks)
    except (KeyError, ValueError):  # hubs, medians
        q = None
    cell = {"word": "undecided", "mean": mean(differences), "s": stdev(differences), "q": q, "n": n}
    cell |= {"levels": [mean(side) for side in zip(*values, strict=True)], "each": differences}
    is_mixed = len({figure[0] == "-" for figure in measure}) == 2
    seconds = [run for _, run in pairs]
    least = 3 * by_chance(measure, seconds, kept.ranks)
    is_lost = any(run.outcome for run in seconds) or (least and cell["levels"][1] < least)
    cell["share"] = 100 * cell["mean"] / abs(cell["levels"][1])
    cell["share"] = None if is_mixed or is_lost else cell["share"]
    cell["sides"] = pairs_of = dict(zip(sides, zip(*pairs, strict=True), strict=True))
    cell["at_edge"] = [at_edge(ledger, kept.rows, own[0]) for own in pairs_of.values()]
    cell["used"] = used = [run for pair in pairs for run in pair]
    searched = [row for row in here if row.seed in SEARCH_SEEDS and row.setting in sides]
    cell["cost"] = sum(row.minutes for row in [*used, *searched])

    def half(p):
        seeds_part = stats.t.isf(p / 2, n - 1) * cell["s"] / n**0.5
        return float((seeds_part**2 + (stats.norm.isf(p / 2) * (q or 0)) ** 2) ** 0.5)

    cell |= {"low": cell["mean"] - half(0.05), "high": cell["mean"] + half(0.05)}
    cell["interest"] = len(measure) / 2
    collapsed = [run.outcome == "collapsed" for run in used]
    early = [r.best_epoch > 0.9 * r.cap for r in used if r.cap and r.outcome != "collapsed"]
    if any(early) or all(collapsed):
        return cell | {"word": "not converged" if any(early) else "collapsed"}
    if not_trained(ledger, claim, cell, in_paper(claim, measure)):
        return cell | {"word": "not comparable"}
    edges = [-claim.within, claim.within] if claim.within else [claim.at_most or 0]
    edges += [claim.at_least] if claim.at_least else []
    distance = min(abs(cell["mean"] - edge) for edge in edges)
    cell["p"] = optimize.brentq(lambda p: half(p) - distance, 1e-15, 1 - 1e-12, xtol=1e-18)
    return cell


def at_edge(ledger, rows, run):
    """Whether a run has the smallest or the largest factor that its search has tried."""
    model = resolved_setting(ledger, run.setting).model
    if model not in search_on(ledger, run.setting, run.dataset).keys:
        return False
    alike = [
        r
        for r in rows
        if (r.setting, r.dataset, r.digest) == (run.setting, run.dataset, run.digest)
    ]
    tried = [row.factor for row in alike if row.seed in SEARCH_SEEDS]
    return run.factor in (min(tried), max(tried))


def not_trained(ledger, claim, cell, paper):
    """Whether a side is below half of the other setting of its model, and not so in the paper."""
    models = {resolved_setting(ledger, side).model for side in cell["sides"]}
    runs = cell["used"]
    kinds = [kind for kind in ("rsum", "phrases.r1") if all(kind in run.figures for run in runs)]
    if len(models) > 1 or not kinds:
        return False
    low, high = (mean(run.figures[kinds[0]] for run in side) for side in cell["sides"].values())
    (low, a), (high, b) = sorted([(low, paper[0]), (high, paper[1])])
    return low < high / 2 and not (claim.published and 0 <= a < b / 2)


def first_places(side):
    """R@1 of a side, means over its runs."""
    names = [n for n in ("i2t.r1", "t2i.r1", "phrases.r1") if all(n in run.figures for run in side)]
    return [mean(run.figures[name] for run in side) for name in names]


def checked(folder):
    """Hold all numbers of a folder's page and README against its kept runs."""
    ledger, kept = read_ledger(folder / "claims.yaml"), read_kept(folder / "docs/claims.tsv")
    text, cells = (folder / "docs/claims.md").read_text(), judged(ledger, kept)
    titles = {dataset.title: name for name, dataset in ledger.datasets.items()}
    seen, papers, found = set(), {}, tables(text)
    for name, claim in ledger.claims.items():
        papers.setdefault(claim.paper, {})[name] = claim
    for paper, claims in papers.items():
        head, *lines = found[paper]
        tried = [(name, claim) for name, claim in claims.items() if claim.datasets]
        untried = ", ".join(f"`{name}`" for name, claim in claims.items() if not claim.datasets)
        assert f"\nNot tried: {untried}.\n" in text or not untried
        for (name, claim), line in zip(tried, lines, strict=True):
            assert line[-2].startswith(claim.says)
            assert line[-2].endswith(f"<br>`{name}`, {claim.measure}; {claim.place}")
            for title, shown in zip(head[:-2], line[:-2], strict=True):
                same(shown, cells.get((name, titles[title]), {"word": ""}))
                seen.add((name, titles[title]))
            a, b = in_paper(claim, ledger.measures[claim.measure])
            points, *share, on = line[-1].split("<br>") if claim.published else (0, claim.published)
            assert close(points, a - b, 1)
            assert on == (claim.published and claim.published.on)
            assert all(close(each.removesuffix(" %"), 100 * (a - b) / abs(b), 1) for each in share)
            tops = re.findall(
                r"\b[it]2[it]\.r(1|5|10)\b", " ".join(measure := figures(ledger, claim))
            )
            is_lost = len(tops) == len(measure) and b < 3 * sum(map(int, tops)) / 10
            is_mixed = len({figure[0] == "-" for figure in measure}) == 2
            assert bool(share) == bool(claim.published and not is_lost and not is_mixed)
    assert seen >= cells.keys()
    for caveat in ledger.caveats:
        assert f"\n- {caveat}\n" in text
    levels(found.get("Levels", [[]])[1:], titles, cells)
    head, *lines = found["The papers' claims"]
    for (name, *numbers), paper in zip(lines, [*papers, "all"], strict=True):
        assert name == paper
        own = papers.get(paper, ledger.claims)
        words = Counter(cell["label"] for (name, _), cell in cells.items() if name in own)
        assert [int(number) for number in numbers] == [words[word] for word in head[1:]]
        assert words.keys() <= set(head)
    said = re.search(
        r"(\d+) of (\d+) claims have a verdict on (\d+) .* of (\d+) cells.*: (.+)\.", text
    )
    counts = [len({name for name, _ in cells}), len(ledger.claims), len({on for _, on in cells})]
    assert [int(number) for number in said.groups()[:4]] == [*counts, len(cells)]
    totals = [f"{word} {number}" for word, number in zip(head, lines[-1], strict=True)][1:]
    assert said[5].split(", ") == [told for told in totals if not told.endswith(" 0")]
    assert said[0] in " ".join((folder / "README.md").read_text().split()), "run: vse claims judge"
    for commit, *numbers in found["Commits and cost"][1:]:
        own = [row for row in kept.rows if commit in ("all", f"`{row.commit}`")]
        searched = [row for row in own if row.seed in SEARCH_SEEDS]
        assert [int(number) for number in numbers[:2]] == [len(own), len(searched)]
        assert close(numbers[2], sum(row.minutes for row in own) / 60, 1)
    shown = {
        tuple(re.findall(r"`(\w+)` of", " ".join(line[1:3]))): line[3:]
        for line in found.get("Carried", [])[1:]
    }
    codes = carried(kept)
    assert {old: new for (old, new), (*_, told) in shown.items() if told == "yes"} == codes
    for (old, new), (count, alike, told) in shown.items():
        pairs = [
            (a, b)
            for a in kept.rows
            for b in kept.rows
            if a.seed and a.run == b.run and (a.code, b.code) == (old, new)
        ]
        assert int(count) == len(pairs)
        assert (count == alike and int(alike) > 1) == (told == "yes")
    noted = re.findall(r"(\w+): its search ended at its edge, factor ([\d.]+)", text)
    used = [row for cell in cells.values() for row in cell.get("used", [])]
    runs = [row for row in used if at_edge(ledger, kept.rows, row)]
    assert set(noted) == {(row.setting, f"{row.factor:g}") for row in runs}
    example(text, ledger, cells)
    return cells


def figures(ledger, claim):
    return ledger.measures[claim.measure]


def levels(lines, titles, cells):
    """Every setting's means of R@1 and rsum, in a cell that counts its runs."""
    wanted = {}
    for (_, on), cell in cells.items():
        for setting, side in cell.get("sides", {}).items():
            if all("rsum" in run.figures for run in side):
                wanted.setdefault((on, setting), []).append(side)
    shown = [(titles[on], setting.strip("`")) for on, setting, *_ in lines]
    assert sorted(shown) == sorted(wanted)
    for (on, setting), (_, _, n, *told) in zip(shown, lines, strict=True):
        exact = [
            [len(side), *first_places(side)[:2], mean(run.figures["rsum"] for run in side)]
            for side in wanted[on, setting]
        ]
        numbers = list(zip(map(float, [n, *told]), (0, 1, 1, 1), strict=True))
        assert any(
            all(close(*one) for one in ((a, b, c) for (a, c), b in zip(numbers, each, strict=True)))
            for each in exact
        )


def example(text, ledger, cells):
    """The numbers of the worked example, in the order in which they are told."""
    told = re.search(r"^An example, `(\w+)` on (.+?): (.+?)\n\n", text, re.DOTALL | re.MULTILINE)
    if told is None:
        assert not any(cell.get("p") and cell["q"] for cell in cells.values())
        return
    (on,) = (name for name, dataset in ledger.datasets.items() if dataset.title == told[2])
    cell, numbers = cells[told[1], on], re.sub("`.*?`|√n|²|i2t|t2i", "", told[3]).replace(",", "")
    t, images = stats.t.ppf(0.975, cell["n"] - 1), 1.96 * cell["q"]
    seeds = t * cell["s"] / cell["n"] ** 0.5
    exact = [
        *cell["levels"],
        cell["n"],
        *cell["each"],
        cell["mean"],
        cell["s"],
        t,
        seeds,
        cell["q"],
        1.96,
        images,
        seeds,
        images,
        (seeds**2 + images**2) ** 0.5,
        cell["low"],
        cell["high"],
    ]
    *shown, p, corrected = map(float, re.findall(NUMBER, numbers))
    assert shown == pytest.approx(exact, abs=0.00501, rel=0)
    assert [p, corrected] == pytest.approx([cell["p"], cell["corrected"]], rel=0.05)
    assert told[3].endswith(f"`{cell['word']}`.")


def same(shown, cell):
    if "mean" not in cell:
        word, _, why = shown.partition("<br>")
        assert word == cell["word"]
        assert why.startswith(cell.get("why", ""))
        return
    match = CELL.fullmatch(shown)
    assert match[1] == cell["label"]
    for name, side in zip(("r1", "other_r1"), cell["sides"].values(), strict=True):
        told = [float(number) for number in (match[name] or "").split(", ") if number]
        assert told == pytest.approx(first_places(side), abs=0.0501)
    assert match["family"] == (str(cell["family"]) if "family" in cell else None)
    for name in ("mean", "low", "high", "share"):
        is_shown = name != "share" or cell["share"] is not None
        assert close(match[name], cell[name], 1) if is_shown else match[name] is None
    assert bool(match["alone"]) == (cell["q"] is None)
    assert close(match["cost"], cell["cost"], 0)
    assert int(match["n"]) == cell["n"]
    p = cell.get("corrected")
    if p is None or p < 0.001:
        assert match["p"] == (p and "< 0.001")
    else:
        assert close(match["p"], p, 3)
