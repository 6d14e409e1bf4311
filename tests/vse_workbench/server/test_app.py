"""The search server answers what the command answers, and every other request with one line."""

import html
import io
import json
import re
import shlex
import struct
import zlib
from urllib.parse import quote

import numpy as np
import pandas as pd
import pytest
import torch
from commands import run_command
from fastapi.testclient import TestClient
from PIL import Image
from tiny_inputs import WORDS

from pipeline.evaluation.criteria import single_query_criteria
from pipeline.evaluation.criterion import Criterion
from pipeline.search.index import Catalogue
from vse_workbench.commands import search
from vse_workbench.search.searcher import Reranker, Searcher
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
    others = {"both": "it averages the scores of vse, scan"}
    app = SearchServer(searchers, pictures, criteria, limits, others).app(["testserver"])
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
    result = run_command(search.main, *arguments, "--json")
    assert result.returncode == 0, result.stderr
    return [(hit["id"], hit["score"], hit["text"]) for hit in json.loads(result.stdout)]


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
    form = client.post(
        "/api/search", params=asked, files={"image": (read_only / "test4.png").read_bytes()}
    )
    assert hits(form) == expected
    assert hits(client.get("/api/search", params=asked | {"image": "test4.png"})) == expected
    captions = pd.read_parquet("data/corpus/captions.parquet").set_index("caption_id")["image_id"]
    for hit in sent.json()["hits"]:
        assert hit["image_id"] == captions[hit["id"]]
        assert hit["image"] == f"/images?id={quote(hit['image_id'])}"


def test_models_and_what_they_can_be_asked(client):
    known = client.get("/api/models").json()
    every = known["models"]
    assert [each["model"] for each in every] == ["vse", "two_branch", "scan"]
    assert [each["model"] for each in known["not_searchable"]] == ["both"]
    assert [each["attention"] for each in every] == [False, False, True]
    for each in every:
        assert each["splits"] == {"test": 9, "val": 3}
        assert each["criteria"] == single_query_criteria()
    best = max(every, key=lambda each: each["val_rsum"])["model"]
    assert known["best"] == best == "scan"
    assert client.get("/healthz").json() == {"ready": True, "model": best}
    assert client.get("/api/search", params={"text": TEXT}).json()["model"] == best


def test_two_models_one_after_the_other(searchers):
    client = client_of(searchers | {"two": Reranker("two", searchers["vse"], searchers["scan"], 3)})
    listed = client.get("/api/models").json()["models"][-1]
    assert (listed["model"], listed["val_rsum"], listed["criteria"]) == ("two", None, ["naive"])
    asked = {"model": "two", "text": TEXT}
    assert len(client.get("/api/search", params=asked).json()["hits"]) == 3
    assert "choose a shortlist" in client.get("/api/embeddings", params=asked).json()["notes"][0]
    other = client.get("/api/search", params=asked | {"criterion": "csls"})
    assert "two reranks: criterion naive alone is allowed" in told(other, 400)


def test_examples_are_of_the_split(client):
    captions = pd.read_parquet("data/corpus/captions.parquet")
    own = captions[captions["split"] == "test"]
    some = client.get("/api/examples").json()
    assert some["texts"] == own["text"].tolist()[::3]  # six of eighteen
    assert some["images"] == own["image_id"].unique().tolist()
    assert "there are test, val" in told(client.get("/api/examples?split=train"), 404)


def test_embeddings_are_those_of_the_score_file(client, searchers):
    captions = searchers["vse"].index("test", "caption")
    texts = searchers["vse"].catalogue.rows("caption", captions.ids)["text"].tolist()
    batch = client.post("/api/embeddings?model=vse", json={"texts": texts}).json()
    assert (batch["model"], batch["kind"]) == ("vse", "text")
    assert batch["shape"] == list(captions.embeddings.shape)
    np.testing.assert_allclose(batch["embeddings"], captions.embeddings, atol=1e-5)
    images = searchers["vse"].index("test", "image")
    asked = {"model": "vse", "image": images.ids[2]}
    one = client.get("/api/embeddings", params=asked).json()
    assert (one["kind"], one["shape"]) == ("image", [1, images.embeddings.shape[1]])
    np.testing.assert_allclose(one["embeddings"][0], images.embeddings[2], atol=1e-5)
    (note,) = client.get("/api/embeddings", params={"text": TEXT}).json()["notes"]
    assert "only choose a shortlist" in note  # scan


def test_a_batch_is_its_queries_one_by_one(client):
    texts, asked = [TEXT, f"{WORDS[1]} yak"], {"model": "scan", "top": 4}
    batch = client.post("/api/search", params=asked, json={"texts": texts}).json()
    assert [each["text"] for each in batch["answers"]] == texts
    for text, answer in zip(texts, batch["answers"], strict=True):
        alone = client.get("/api/search", params=asked | {"text": text}).json()
        assert {**alone, **answer} == alone | {"text": text}
    wrong = client.post("/api/search", json={"texts": [TEXT, "zebra"]})
    assert "texts[1]: no word of the query is known" in told(wrong, 400)


def test_words_that_are_not_known_are_told(client):
    asked = {"model": "vse", "text": f"{TEXT} zebra <b>yak</b>"}
    (note,) = client.get("/api/search", params=asked).json()["notes"]
    assert "zebra" in note
    assert "yak" in note
    assert "'\ufffd' has no words" in told(client.get("/api/search?text=%ff"), 400)
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
        ({"model": "both", "text": TEXT}, 404, "'both': it averages the scores of vse, scan"),
        ({"text": "", "top": "NaN"}, 422, "text: String should have at least 1 character; top: "),
        ({"text": TEXT, "k": 5}, 422, "'k': allowed are model, text, image, split, top, criterion"),
        ({"text": [TEXT, TEXT]}, 422, "'text': given 2 times"),
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


def form(name="image", head="", more="", end="--b--\r\n"):
    own = f'--b\r\nContent-Disposition: form-data; name="{name}"\r\n{head}\r\nxx\r\n{more}{end}'
    return own.encode()


@pytest.mark.parametrize(
    ("kind", "body", "status", "words"),
    [
        ("multipart/form-data; boundary=b", form(), 400, "the uploaded file: not an image"),
        ("multipart/form-data; boundary=b", form("file"), 400, "a form without the field image"),
        ("multipart/form-data; boundary=b", form(more="--b\r\n\r\n"), 400, "not a form with one"),
        ("multipart/form-data; boundary=b", form(end="--b\r\n"), 400, "not a form with one file"),
        ("multipart/form-data; boundary=b", form(end=""), 400, "not a form with one file"),
        ("multipart/form-data; boundary=b", form(head="a: b\r\n" * 9999), 400, "too long"),
        ("multipart/form-data; boundary=b", b"--b\r\n--b--", 400, "has no headers"),
        ("multipart/form-data; boundary*=utf-8''%ff", form(), 400, "not a form with one file"),
        ("multipart/form-data", form(), 400, "not a form with one file"),
        ("application/json", b"", 422, "body: Invalid JSON"),
        ("application/json", b"[" * 99_999, 422, "body: Invalid JSON: recursion limit"),
        ("application/json", b'{"texts": ["\xff"]}', 422, "body: Invalid JSON: invalid unicode"),
        ("application/json", b'{"texts": [NaN], "k": 1}', 422, "k: allowed is texts"),
        ("application/json", b'{"texts": []}', 422, "texts: List should have at least 1"),
        ("application/json", json.dumps({"texts": ["w"] * 101}), 422, "texts: List should have at"),
    ],
)
@pytest.mark.parametrize("path", ["/api/search", "/api/embeddings"])
def test_bodies_that_are_neither_form_nor_batch(client, path, kind, body, status, words):
    assert words in told(client.post(path, content=body, headers={"Content-Type": kind}), status)


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
    for host in ("evil.example", "testserver.evil", "[::1", "", "testserver:x"):
        assert "no name of this server" in told(client.get("/", headers={"Host": host}), 400)
    assert client.get("/", headers={"Host": "TestServer:80"}).status_code == 200
    assert client.get("/?name=app.py&at=/etc/passwd").text == client.get("/").text
    for path in ("/", "/api/models", "/static/app.js", "/images?id=test0.png", "/nothing"):
        answer, head = client.get(path), client.head(path)
        assert "default-src 'none'" in answer.headers["content-security-policy"]
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert (head.status_code, head.headers) == (answer.status_code, answer.headers)


@pytest.mark.parametrize(
    ("path", "allowed"),
    [
        ("/api/search", "GET, HEAD, POST"),
        *((path, "GET, HEAD") for path in ("/", "/healthz", "/images", "/static/app.js")),
    ],
)
def test_a_wrong_method_is_told_the_right_ones(client, path, allowed):
    for method in ("DELETE", "BREW"):
        answer = client.request(method, path)
        assert told(answer, 405) == f"method '{method}': allowed are {allowed}"
        assert answer.headers["allow"] == allowed


def test_the_page_of_requests_has_a_working_example_of_each(client):
    """Each line is `curl [option value] address`."""
    page, photo, tried = client.get("/api").text, a_jpeg(), set()
    sent = {"-F": {"files": {"image": photo}}, "--data-binary": {"content": photo}}
    for line in re.findall("curl .*?(?=</code>)", page):
        line = html.unescape(line).replace("TEXT", TEXT).replace("ID", "test1.png")
        *options, address = shlex.split(line)[1:]
        path = address.removeprefix("http://127.0.0.1:8000")
        if "-d" in options:
            sent["-H"] = {"content": options[-1], "headers": [options[1].split(": ")]}
        body = sent.get(options[0]) if options else None
        answer = client.request("POST" if body else "GET", path, **(body or {}))
        assert answer.status_code == 200, (line, answer.text)
        tried.add((path.partition("?")[0], answer.request.method.lower()))
    paths = client.get("/openapi.json").json()["paths"]
    assert tried == {(path, method) for path, methods in paths.items() for method in methods}
    assert "script" not in page


def test_the_description_names_all_requests(client):
    paths = client.get("/openapi.json").json()["paths"]
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
    other = Searcher("scan", CPU)
    other.catalogue = searcher.catalogue
    client = client_of({"vse": searcher, "scan": other})
    every = client.get("/api/search", params={"model": "vse", "text": TEXT}).json()["hits"]
    (hit,) = [each for each in every if each["id"] == odd]
    assert client.get(hit["image"]).headers["content-type"] == "image/jpeg"


def test_images_without_files_have_no_picture(read_only):
    searchers = {name: Searcher(name, CPU) for name in ("vse", "scan")}
    images, captions = searchers["vse"].catalogue.images, searchers["vse"].catalogue.captions
    for searcher in searchers.values():
        searcher.catalogue = Catalogue(images.assign(path=""), captions)
    client = client_of(searchers)
    for model in searchers:
        every = client.get("/api/search", params={"model": model, "text": TEXT}).json()["hits"]
        assert {hit["image"] for hit in every} == {None}
        assert not any("attention" in hit for hit in every)
    line = "the corpus has no photograph of image 'test0.png'"
    for address, asked in (
        ("/images", {"id": "test0.png"}),
        ("/api/search", {"model": "vse", "image": "test0.png"}),
        ("/attention", {"model": "scan", "text": TEXT, "image": "test0.png"}),
    ):
        assert told(client.get(address, params=asked), 404) == line
