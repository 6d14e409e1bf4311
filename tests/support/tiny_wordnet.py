"""A WordNet of a dozen words, for tests."""

LICENCE = "  1 This software and database is being provided to you, the LICENSEE, by  \n"
TINY = {
    "index.noun": "axis n 2 1 @ 2 1 00000010 00000011\nax n 1 0 1 0 00000012\n"
    "city n 1 0 1 0 00000013\nmen n 1 0 1 0 00000014\nman n 1 0 1 0 00000015\n"
    "glasses n 1 0 1 0 00000016\nglass n 1 0 1 0 00000017\n"
    "hoping n 1 0 1 0 00000018\n",
    "index.verb": "hope v 1 0 1 0 00000010\nhop v 1 0 1 0 00000011\ngo v 1 0 1 0 00000012\n",
    "index.adj": "large a 1 2 ! & 1 0 00000010\nill a 1 0 1 0 00000011\n",
    "index.adv": "well r 1 0 1 0 00000010\n",
    "noun.exc": "axes axis ax\nmice mouse\n",
    "verb.exc": "went go\ngoes gone\n",
    "adj.exc": "",
    "adv.exc": "best well\n\n",
}


def folder_of(path, **changes):
    """TINY as files; changes by file name with _ for the dot; None leaves a file out."""
    path.mkdir(parents=True, exist_ok=True)
    for name, text in TINY.items():
        content = changes.get(name.replace(".", "_"), LICENCE * name.startswith("index") + text)
        if content is not None:
            (path / name).write_bytes(content if isinstance(content, bytes) else content.encode())
    return path
