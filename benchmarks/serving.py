"""The search server under fifty clients, on what `dvc repro` left in a folder."""

import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path
from urllib.parse import urlencode

import numpy as np
import pandas as pd

from benchmarks.common import Row

CLIENTS, REQUESTS = 50, 2000
MODEL = "vse"
CORPUS = Path("data/corpus")


def rows(folder: Path) -> list[Row]:
    """One request in ten is an image, one a thumbnail, the others are texts of captions."""
    command = [sys.executable, "-m", "vse_workbench", "serve", MODEL, "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr
        host = next(re.findall(r"http://(\S+)/", line)[0] for line in server.stderr)
        try:
            return [_measured(host, folder)]
        finally:
            server.terminate()


def _measured(host: str, folder: Path) -> Row:
    texts = pd.read_parquet(folder / CORPUS / "captions.parquet")["text"].tolist()
    images = pd.read_parquet(folder / CORPUS / "images.parquet")
    data = (folder / images["path"][0]).read_bytes()
    search = f"/api/search?{urlencode({'model': MODEL})}"

    def request(number: int) -> tuple[int, float]:
        if number % 10 == 0:
            asked = "POST", search, data
        elif number % 10 == 1:
            name = images["image_id"][number % len(images)]
            asked = "GET", f"/images?{urlencode({'id': name})}", None
        else:
            query = urlencode({"model": MODEL, "text": texts[number % len(texts)]})
            asked = "GET", f"/api/search?{query}", None
        began = time.perf_counter()
        connection = HTTPConnection(host)
        connection.request(*asked)
        answer = connection.getresponse()
        answer.read()
        return answer.status, time.perf_counter() - began

    request(0)  # loads the network behind the features
    began = time.perf_counter()
    with ThreadPoolExecutor(CLIENTS) as clients:
        answers = list(clients.map(request, range(REQUESTS)))
    rate = REQUESTS / (time.perf_counter() - began)
    errors = sum(status != 200 for status, _ in answers)
    middle, late = np.percentile([1000 * seconds for _, seconds in answers], [50, 99])
    return Row(
        f"search server, {CLIENTS} clients, {REQUESTS:,} requests, an image in ten",
        f"{errors} errors, median {middle:.0f} ms, p99 {late:.0f} ms, {rate:.0f}/s",
        "no error",
        errors == 0,
    )
