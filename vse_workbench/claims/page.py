"""docs/claims.md and what is printed: every claim with its pairs, interval and verdict."""

from collections import Counter
from collections.abc import Iterable, Sequence

from vse_workbench.claims.judgement import Judgement
from vse_workbench.claims.ledger import Ledger

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

A row has a claim, and under each dataset the verdict, the mean difference, its interval and n.
Behind the claim stand its name and its measure. The datasets are far smaller than the papers'.

An interval speaks of other seeds of training on the same corpus, not of other corpora. If no
setting made any difference, chance alone would decide 5 % of the claims."""


def page(ledger: Ledger, judgements: Sequence[Judgement]) -> str:
    """The document as Markdown: the rule, a table for each paper, and what was left out."""
    judged = ", ".join(counts(judgements))
    number = f"{len(ledger.claims)} claims, each counted once for every dataset: {judged}."
    more = "How to run more: [ablations](ablations.md)."
    lines = ["# The papers' claims", "", HEAD, "", f"{number} {more}", "", RULE]
    for paper in dict.fromkeys(made.claim.paper for made in judgements):
        lines += ["", f"## {paper}", ""]
        lines += _table(ledger, [made for made in judgements if made.claim.paper == paper])
    lines += [
        "",
        "## Measures",
        "",
        "`claims.yaml` has them, and the values of every setting.",
        "",
    ]
    for name, figures in ledger.measures.items():
        lines.append(f"- {name}: {' + '.join(figures).replace('+ -', '- ')}")
    problems = [
        f"- `{made.name}` on {made.dataset}: {text}"
        for made in judgements
        for text in made.problems
    ]
    if problems:
        lines += ["", "## Left out", "", *problems]
    return "\n".join(lines) + "\n"


def word_of(made: Judgement) -> str:
    """A judgement in a word: the verdict's, `not run`, or `refused` for runs that do not fit."""
    if made.verdict is not None:
        return made.verdict.word
    return "not run" if made.lacks else "refused"


HEADS = ["claim", "dataset", "measure", "published", "n", "difference", "interval", "verdict"]


def rows_of(judgements: Iterable[Judgement]) -> list[list[str]]:
    """Head and a row for each judgement, for a terminal."""
    return [HEADS, *(_row(made) for made in judgements)]


def _row(made: Judgement) -> list[str]:
    published = "no figures" if made.published is None else f"{made.published:+.1f}"
    numbers, found = ["0", "", ""], made.found
    if found is not None:
        interval = "" if found.low is None else f"{found.low:+.1f} to {found.high:+.1f}"
        numbers = [str(found.n), f"{found.mean:+.1f}", interval]
    return [made.name, made.dataset, made.claim.measure, published, *numbers, _verdict(made)]


def _table(ledger: Ledger, judgements: Iterable[Judgement]) -> list[str]:
    """A row for each claim: what came out on each dataset, what it says, what was published."""
    claims: dict[str, dict[str, Judgement]] = {}
    for made in judgements:
        claims.setdefault(made.name, {})[made.dataset] = made
    datasets = list(dict.fromkeys(name for tried in claims.values() for name in tried))
    head = [*(ledger.datasets[name].title for name in datasets), "claim", "published"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for name, tried in claims.items():
        made = next(iter(tried.values()))
        claim, published = made.claim, "no figures"
        if claim.published is not None:
            published = f"{made.published:+.1f}, {claim.published.on}"
        margin = "" if claim.at_most is None else f" Margin: at most {claim.at_most:+g}."
        if claim.within is not None:
            margin = f" Margin: ±{claim.within:g}."
        text = f"{claim.says}{margin} `{name}`, {claim.measure}; {claim.place}"
        verdicts = [_cell(tried[each]) if each in tried else "" for each in datasets]
        lines.append(f"| {' | '.join([*verdicts, text, published])} |")
    return lines


def _cell(made: Judgement) -> str:
    """The verdict in bold, then what it rests on."""
    verdict, found = made.verdict, made.found
    if verdict is None or found is None:
        return word_of(made)
    interval = "" if found.low is None else f" ({found.low:+.1f} to {found.high:+.1f})"
    rest = _verdict(made).removeprefix(verdict.word)
    return f"**{verdict.word}**{rest}: {found.mean:+.1f}{interval}, n {found.n}"


def _verdict(made: Judgement) -> str:
    if made.verdict is None:
        return made.lacks or word_of(made)
    verdict = made.verdict
    words = [word for word in (verdict.word, verdict.size) if word]
    if verdict.word == "undecided":
        if made.found is None or made.found.n < 2:
            words.append("one seed has no interval")
        elif verdict.seeds is None:
            words.append("no number of seeds in reach would decide")
        else:
            words.append(f"{verdict.seeds} seeds would decide")
    return ", ".join(words)


def counts(judgements: Sequence[Judgement]) -> list[str]:
    words = Counter(word_of(made) for made in judgements)
    return [f"{number} {word}" for word, number in words.most_common()]
