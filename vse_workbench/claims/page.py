"""docs/claims.md and what is printed: every claim with its pairs, interval and verdict."""

from collections import Counter
from collections.abc import Iterable, Sequence

from pipeline.runtime.errors import listing
from vse_workbench.claims.judgement import Judgement
from vse_workbench.claims.ledger import Claim, Ledger

HEAD = "<!-- Written by vse claims judge from claims.yaml and docs/claims.tsv. -->"
RULE = """\
Two runs are compared that have the same seed of training, the same corpus and the same code, and
differ in their settings alone. With d the n differences of such pairs, first setting minus second,
the interval is mean(d) ± t(n - 1, 0.975) · s(d) / √n. One rule gives every verdict:

- `holds`: the interval lies above 0; of a claim with a margin, inside the margin.
- `reversed`: it lies below 0, or outside the margin.
- `as large as published`, `smaller`, `larger`: whether the paper's difference lies inside the
  interval, above it or below it.
- `undecided`: the interval lies on both sides; so many seeds would decide if mean and deviation
  stayed what they are. Adding seeds until something is decided finds more than there is: choose
  their number before.

An interval speaks of other seeds of training on the same corpus, not of other corpora. If no
setting made any difference, chance alone would decide 5 % of the claims."""


def page(ledger: Ledger, judgements: Sequence[Judgement]) -> str:
    """The document as Markdown: the rule, a table for each paper, and what was left out."""
    words = Counter(word_of(made) for made in judgements)
    counts = ", ".join(f"{number} {word}" for word, number in words.most_common())
    lines = [
        "# The papers' claims",
        "",
        HEAD,
        "",
        f"{len(ledger.claims)} claims: {counts}. How to run more: [ablations](ablations.md).",
        "",
        RULE,
    ]
    for paper in dict.fromkeys(made.claim.paper for made in judgements):
        lines += ["", f"## {paper}", ""]
        lines += _table(ledger, [made for made in judgements if made.claim.paper == paper])
    lines += [
        "",
        "## Measures",
        "",
        "`claims.yaml` has them, and the values of every setting.",
        "",
        *_measures(ledger),
    ]
    told = [(made, text) for made in judgements for text in made.problems]
    if left_out := [f"- `{made.name}` on {made.dataset}: {text}" for made, text in told]:
        lines += ["", "## Left out", "", *left_out]
    return "\n".join(lines) + "\n"


def word_of(made: Judgement) -> str:
    """A judgement in a word: the verdict's, `not run`, or `refused` for runs that do not fit."""
    if made.verdict is not None:
        return made.verdict.word
    return "not run" if made.lacks else "refused"


def rows_of(judgements: Iterable[Judgement]) -> list[list[str]]:
    """Head and a row for each judgement, for a terminal."""
    rows = [["claim", "dataset", "measure", "published", "n", "difference", "interval", "verdict"]]
    for made in judgements:
        rows.append(
            [made.name, made.dataset, made.claim.measure, _published(made), *_numbers(made),
             _verdict(made)]
        )  # fmt: skip
    return rows


def _table(ledger: Ledger, judgements: Iterable[Judgement]) -> list[str]:
    head = ("claim", "first, second", "dataset", "measure", "published", "n", "difference",
            "interval", "verdict")  # fmt: skip
    lines = [f"| {' | '.join(head)} |", "|---|---|---|---|--:|--:|--:|---|---|"]
    for made in judgements:
        claim = made.claim
        margin = _margin(claim)
        source = f" ({claim.published.on})" if claim.published is not None else ""
        cells = [
            f"`{made.name}`, {claim.place}: {claim.says}{margin}",
            f"`{claim.first}`, `{claim.second}`",
            ledger.datasets[made.dataset].title,
            claim.measure,
            _published(made) + source,
            *_numbers(made),
            _verdict(made),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _margin(claim: Claim) -> str:
    if claim.within is not None:
        return f" Margin: ±{claim.within:g}."
    return "" if claim.at_most is None else f" Margin: at most {claim.at_most:+g}."


def _measures(ledger: Ledger) -> list[str]:
    return [f"- {name}: {' + '.join(keys).replace('+ -', '- ')}"
            for name, keys in ledger.measures.items()]  # fmt: skip


def _published(made: Judgement) -> str:
    return "no figures" if made.published is None else f"{made.published:+.1f}"


def _numbers(made: Judgement) -> list[str]:
    if made.found is None:
        return ["0", "", ""]
    found = made.found
    interval = "" if found.low is None else f"{found.low:+.1f} to {found.high:+.1f}"
    return [str(found.n), f"{found.mean:+.1f}", interval]


def _verdict(made: Judgement) -> str:
    if made.verdict is None:
        return made.lacks or word_of(made)
    verdict = made.verdict
    words = [verdict.word, *([verdict.size] if verdict.size else [])]
    if verdict.word == "undecided":
        if made.found is None or made.found.n < 2:
            words.append("one seed has no interval")
        elif verdict.seeds is None:
            words.append("no number of seeds in reach would decide")
        else:
            words.append(f"{verdict.seeds} seeds would decide")
    return ", ".join(words)


def summary(judgements: Sequence[Judgement]) -> str:
    """One line: how many claims came out how."""
    words = Counter(word_of(made) for made in judgements)
    return listing(f"{number} {word}" for word, number in words.most_common())
