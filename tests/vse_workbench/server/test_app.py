"""The search server answers what the command answers, and every other request with one line."""

import io
import json
import re
import struct
import zlib
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
import torch
from fastapi.testclient import TestClient
from indexed import run
from PIL import Image
from tiny_inputs import WORDS

from pipeline.evaluation.criteria import single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.search.index import Catalogue
from vse_workbench.commands import search
from vse_workbench.search.searcher import Searcher
from vse_workbench.server.app import Limits, SearchServer
from vse_workbench.server.attention import AttentionPictures

CPU = torch.device("cpu")
LIMITS = Limits(upload=100_000, pixels=1_000_000)
TEXT = f"{WORDS[3]} {WORDS[5]}"


@pytest.fixture(scope="module")
def searchers(read_only):
    return {name: Searcher(name, CPU) for name in ("vse", "two_branch", "scan")}


@pytest.fixture(scope="module")
def client(searchers):
    return client_of(searchers)


def client_of(searchers, limits=LIMITS):
    pictures = {"scan": AttentionPictures(searchers["scan"], CPU)}
    criteria = {name: Criterion(name, k=2) for name in single_query_criteria()}
    app = SearchServer(searchers, pictures, criteria, limits).app(["testserver"])
    return TestClient(app, raise_server_exceptions=False)


def png(width, height, pixels=b""):
    """A PNG that says it has that many pixels, whatever it has."""

    def chunk(kind, data):
        body = kind + data
        return struct.pack(">I", len(data)) + body + struct.pack(">I", zlib.crc32(body))

    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def told(response, status):
    """The one line of an error."""
    assert response.status_code == status, response.text
    assert list(response.json()) == ["detail"]
    line = response.json()["detail"]
    assert line
    assert "\n" not in line
    assert "Traceback" not in line
    return line


def found(*arguments):
    """(id, score, text) of every hit of the command."""
    result = run(search.main, *arguments, "--json")
    assert result.exit_code == 0, result.output
    return [(hit["name"], hit["score"], hit["text"]) for hit in json.loads(result.stdout)]


def hits(response):
    assert response.status_code == 200, response.text
    return [(hit["id"], hit["score"], hit["text"]) for hit in response.json()["hits"]]


@pytest.mark.parametrize("model", ["vse", "two_branch", "scan"])
def test_a_text_finds_what_the_command_finds(client, model):
    asked = {"model": model, "text": TEXT, "top": 7, "split": "val"}
    answer = client.get("/api/search", params=asked)
    assert hits(answer) == found(TEXT, "--model", model, "--top", 7, "--split", "val")
    said = answer.json()
    assert (said["kind"], said["searched"], said["criterion"]) == ("image", 3, "naive")
    other = client.get("/api/search", params=asked | {"criterion": "csls"})
    assert other.json()["criterion"] == "csls"
    assert hits(other) != hits(answer)
    for hit in said["hits"]:
        picture = Image.open(io.BytesIO(client.get(hit["image"]).content))
        assert (picture.format, picture.size) == ("JPEG", (32, 32))
        assert "path" not in hit


@pytest.mark.parametrize("model", ["vse", "scan"])
def test_an_image_finds_what_the_command_finds(client, read_only, model):
    expected = found("--image", "test4.png", "--model", model, "--top", 5)
    asked = {"model": model, "top": 5}
    sent = client.post("/api/search", params=asked, content=(read_only / "test4.png").read_bytes())
    assert hits(sent) == expected
    assert sent.json()["kind"] == "caption"
    assert hits(client.get("/api/search", params=asked | {"image": "test4.png"})) == expected
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")["image_id"]
    for hit in sent.json()["hits"]:
        assert hit["image_id"] == captions[hit["id"]]
        assert hit["image"] == f"/images?id={quote(hit['image_id'])}"


def test_models_and_what_they_can_be_asked(client):
    every = client.get("/api/models").json()
    assert [each["model"] for each in every] == ["vse", "two_branch", "scan"]
    assert [each["attention"] for each in every] == [False, False, True]
    for each in every:
        assert each["splits"] == {"test": 9, "val": 3}
        assert each["criteria"] == single_query_criteria()


def test_words_that_are_not_known_are_told(client):
    asked = {"model": "vse", "text": f"{TEXT} zebra <b>yak</b>"}
    (note,) = client.get("/api/search", params=asked).json()["notes"]
    assert "zebra" in note
    assert "yak" in note
    line = told(client.get("/api/search", params={"model": "vse", "text": "zebra"}), 400)
    assert "no word of the query is known" in line


def test_where_a_model_looks_is_a_picture(client):
    answer = client.get("/api/search", params={"model": "scan", "text": TEXT}).json()
    first = client.get(answer["hits"][0]["attention"])
    assert first.headers["content-type"] == "image/png"
    picture = np.array(Image.open(io.BytesIO(first.content)).convert("RGB"))
    assert picture.shape[1] > 1000
    assert picture.std() > 10  # not an empty sheet
    other = client.get(answer["hits"][1]["attention"])
    assert other.content != first.content
    asked = {"model": "vse", "text": TEXT, "image": "test0.png"}
    assert "scan" in told(client.get("/attention", params=asked), 404)
    asked = {"model": "scan", "text": "?!", "image": "test0.png"}
    assert "no words" in told(client.get("/attention", params=asked), 400)
    asked = {"model": "scan", "text": TEXT, "image": "val0.png"}
    assert "not in the split" in told(client.get("/attention", params=asked), 400)


@pytest.mark.parametrize(
    ("asked", "status", "words"),
    [
        ({"model": "../passwd", "text": TEXT}, 404, "'../passwd': there are vse, two_branch, scan"),
        ({"model": "vse", "text": TEXT, "split": "train"}, 404, "there are test, val"),
        ({"model": "vse", "text": TEXT, "criterion": "hungarian"}, 404, "there are naive"),
        ({"model": "vse", "image": "../params.yaml"}, 404, "no image"),
        ({"model": "vse", "image": "\x1b[2J\u202e"}, 404, "no image"),
        ({"model": "vse"}, 400, "either text or image"),
        ({"text": ""}, 422, "model: Field required; text: String should have at least 1"),
        ({"model": "vse", "text": "w" * 2001, "top": 10**9}, 422, "at most 2000 characters; top: "),
    ],
)
def test_questions_that_cannot_be_answered(client, asked, status, words):
    line = told(client.get("/api/search", params=asked), status)
    assert words in line
    assert line.isprintable()


def a_jpeg():
    buffer = io.BytesIO()
    Image.open("test0.png").save(buffer, "JPEG")
    return buffer.getvalue()


@pytest.mark.parametrize(
    ("make", "status", "words"),
    [
        (lambda: b"", 400, "empty file"),
        (lambda: b"%PDF-1.7 " + bytes(500), 400, "not an image"),
        (lambda: a_jpeg()[:400], 400, "the uploaded file: "),
        (lambda: png(60_000, 60_000), 400, "60000 x 60000 pixels"),
        (lambda: png(900, 900, zlib.compress(bytes(100))), 400, "the uploaded file: "),
        (lambda: bytes(100_001), 413, "0.1 MB"),
    ],
)
def test_uploads_that_are_no_images(client, make, status, words):
    asked = {"model": "vse"}
    line = told(client.post("/api/search", params=asked, content=make()), status)
    assert words in line
    answer = client.post("/api/search", params=asked, content=a_jpeg())
    assert len(hits(answer)) == 12  # the server goes on


def test_an_upload_that_does_not_say_how_large_it_is(client):
    parts = (bytes(50_000) for _ in range(10_000))
    answer = client.post("/api/search", params={"model": "vse"}, content=parts)
    assert "0.1 MB" in told(answer, 413)


def test_paths_outside_other_hosts_and_what_a_browser_may_do(client):
    for path in ("/images?id=/etc/passwd", "/images?id=..%2F..%2Fparams.yaml"):
        assert "no image" in told(client.get(path), 404)
    for path in ("/static/../app.py", "/static/%2e%2e/app.py", "/params.yaml", "/docs"):
        assert client.get(path).status_code == 404
    assert client.get("/images?id=test0.png&side=9999").status_code == 422
    assert client.delete("/api/search").status_code == 405
    other = client.get("/api/models", headers={"Host": "evil.example"})
    assert (other.status_code, other.text) == (400, "Invalid host header")
    for path in ("/", "/api/models", "/static/app.js", "/images?id=test0.png", "/nothing"):
        headers = client.get(path).headers
        assert "default-src 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"


def test_the_description_names_all_requests(client):
    paths = client.get("/openapi.json").json()["paths"]
    assert set(paths) == {"/api/models", "/api/search", "/images", "/attention"}
    assert "image/*" in paths["/api/search"]["post"]["requestBody"]["content"]
    names = {each["name"] for each in paths["/api/search"]["get"]["parameters"]}
    assert names == {"model", "text", "image", "split", "top", "criterion"}


def test_a_request_that_takes_too_long(searchers):
    hurried = client_of(searchers, Limits(seconds=1e-9))
    line = told(hurried.get("/api/search", params={"model": "vse", "text": TEXT}), 503)
    assert "not answered in time" in line


class Buggy(Searcher):
    def of_text(self, text, question):
        raise ZeroDivisionError(text)


def test_a_bug_stays_in_the_terminal(read_only, caplog):
    client = client_of({"vse": Buggy("vse", CPU), "scan": Searcher("scan", CPU)})
    answer = client.get("/api/search", params={"model": "vse", "text": TEXT})
    assert told(answer, 500) == "an error of the server, told in its terminal"
    assert "ZeroDivisionError" in caplog.text


def test_the_page_names_every_element_that_its_script_asks_for(client):
    page, script = client.get("/").text, client.get("/static/app.js").text
    asked = set(re.findall(r'\$\("(\w+)"\)', script)) | {"model", "split", "criterion", "top"}
    assert asked <= set(re.findall(r'id="(\w+)"', page))
    assert "innerHTML" not in script


def test_the_corpus_may_have_any_ids(read_only):
    """Ids with HTML, spaces and signs of addresses come back as they are, and their images too."""
    searcher = Searcher("vse", CPU)
    odd = "<img src=x onerror=alert(1)>&id=../x#%2F"
    tables = (searcher.catalogue.images, searcher.catalogue.captions)
    searcher.catalogue = Catalogue(
        *(each.assign(image_id=each["image_id"].replace("test0.png", odd)) for each in tables)
    )
    index = searcher.index("test", "image")
    index.ids[index.ids.index("test0.png")] = odd
    client = client_of({"vse": searcher, "scan": Searcher("scan", CPU)})
    every = client.get("/api/search", params={"model": "vse", "text": TEXT}).json()["hits"]
    (hit,) = [each for each in every if each["id"] == odd]
    assert client.get(hit["image"]).headers["content-type"] == "image/jpeg"
