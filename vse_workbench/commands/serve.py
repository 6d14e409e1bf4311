"""Search in a browser, and by JSON from other programs."""

import socket
from contextlib import suppress

import click

from models.registry import load_model
from pipeline.evaluation.criteria import single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.runtime.errors import WorkbenchError, listing
from pipeline.runtime.process import say
from pipeline.runtime.repeatable import pick_device
from stages.common import command
from stages.params import CommonParams, load_for_queries
from vse_workbench.search.searcher import Searcher, open_searcher, scored_models

GROUP = "look"

LOCAL = ("127.0.0.1", "localhost", "::1")
ANY = ("0.0.0.0", "::")


@command
@click.argument("names", nargs=-1, metavar="[MODEL]...")
@click.option("--host", default="127.0.0.1", help="Address to listen at.")
@click.option("--port", default=8000, type=click.IntRange(0, 65535), help="0: any that is free.")
@click.option("--name", "called", multiple=True, help="More names by which others call this host.")
@click.option(
    "--max-upload", default=10.0, type=click.FloatRange(0.001, 1000), help="MB of a request."
)
@click.option("--timeout", default=30.0, type=click.FloatRange(0.1, 3600), help="Seconds.")
def main(
    names: tuple[str, ...],
    host: str,
    port: int,
    called: tuple[str, ...],
    max_upload: float,
    timeout: float,
) -> None:
    """Serve searches with each MODEL or item of rerank, by default with all, until Ctrl-C.

    Example: vse serve vse scan --port 8080
    """
    try:
        import uvicorn

        from vse_workbench.server.app import Limits, SearchServer
        from vse_workbench.server.attention import AttentionPictures
        from vse_workbench.server.guard import Protocol
    except ImportError as error:
        raise WorkbenchError(
            f"{error.name} is not installed", "pip install --editable '.[serve]'"
        ) from None
    params = load_for_queries()
    device = pick_device(params.runtime.device)
    others = not_searchable(params)
    opened: dict[str, Searcher] = {}
    searchers = {}
    pictures = {}
    for name in names or [*scored_models(), *params.rerank]:
        try:
            searchers[name] = open_searcher(name, device, params, opened)
        except WorkbenchError as error:
            if names or name not in params.rerank:
                raise
            others[name] = error.message
        if name not in params.rerank and load_model(name).attends():
            pictures[name] = AttentionPictures(searchers[name], device)
    inference = params.inference.model_dump(exclude={"criteria"})
    criteria = {name: Criterion(name, **inference) for name in single_query_criteria()}
    limits = Limits(int(max_upload * 1e6), int(params.corpus.max_megapixels * 1e6), timeout)
    with listening_at(host, port) as socket_:
        shown = f"[{host}]" if ":" in host else host
        port = socket_.getsockname()[1]
        hosts = ["*"] if host in ANY and not called else [*LOCAL, host, *called]
        server = SearchServer(searchers, pictures, criteria, limits, others)
        rsum = searchers[server.best].val_rsum
        if rsum is not None:
            say(f"the page opens on {server.best}: the largest validation rsum ({rsum:.1f})")
        say(f"http://{shown}:{port}/ searches with {', '.join(searchers)}; Ctrl-C ends it")
        if host not in LOCAL:
            say("who reaches this address sees all images of the corpus: there is no password")
        with suppress(KeyboardInterrupt):  # after the server has ended itself
            app = server.app(hosts)
            config = uvicorn.Config(app, http=Protocol, log_level="warning", server_header=False)
            uvicorn.Server(config).run(sockets=[socket_])
        say("ended")


def not_searchable(params: CommonParams) -> dict[str, str]:
    """Scores without a network of their own, and why they cannot be searched with."""
    averages = params.average_scores.items()
    why = {
        name: f"it averages the scores of {listing(average.members)}; search with one of these"
        for name, average in averages
    }
    return why | dict.fromkeys(params.external, "its scores come from another program")


def listening_at(host: str, port: int) -> socket.socket:
    """A socket that others can connect to.

    Args:
        host: address or name.
        port: 0: any that is free.

    Returns:
        It listens already.

    Raises:
        WorkbenchError: the system refuses it.
    """
    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise WorkbenchError(
            f"cannot listen at {host}, port {port}: {error.strerror}", "choose another --port"
        ) from None
