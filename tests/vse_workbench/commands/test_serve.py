"""`vse serve` as a process: many clients at once, a browser, Ctrl-C, bad options."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPResponse
from urllib.parse import urlencode

import pytest
from browsers import resize
from clone import ROOT
from commands import fail
from tiny_inputs import WORDS

from vse_workbench.commands.serve import main

TEXT = f"{WORDS[3]} {WORDS[5]}"


@pytest.fixture(scope="module")
def server(indexed):
    command = [sys.executable, "-m", "vse_workbench", "serve", "--port", "0", "vse", "scan"]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(
        command, cwd=indexed, env=environment, stderr=subprocess.PIPE, text=True
    )
    addresses = (re.search(r"http://\S+/", line) for line in process.stderr)
    yield next(filter(None, addresses))[0]
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert process.returncode == 0
    # nothing else was worth a word: no traceback, no warning of ours
    assert set(said.splitlines()) - {"WARNING:  Invalid HTTP request received."} == {"ended"}


def asked(address, path, body=None):
    connection = HTTPConnection(address.split("/")[2])
    connection.request("POST" if body else "GET", path, body)
    answer = connection.getresponse()
    return answer.status, json.loads(answer.read())


def test_fifty_clients_at_once_get_what_one_gets(server, indexed):
    texts = [f"{WORDS[n]} {WORDS[n + 1]}" for n in range(8)]
    image = (indexed / "test1.png").read_bytes()
    paths = [f"/api/search?{urlencode({'model': 'vse', 'text': text})}" for text in texts]
    requests = [(path, None) for path in paths] + [("/api/search?model=vse", image)]
    requests += [("/api/search?model=gpt&text=x", None), ("/api/search?model=vse", b"no image")]

    def ask(request):
        status, answer = asked(server, *request)
        return status, answer.get("hits", answer.get("detail"))

    alone = [ask(request) for request in requests]
    assert [status for status, _ in alone] == [200] * 9 + [404, 400]
    with ThreadPoolExecutor(50) as clients:
        together = list(clients.map(ask, requests * 30))
    assert together == alone * 30


SEARCH = b"POST /api/search HTTP/1.1\r\nHost: localhost\r\n"


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (b"rubbish\r\n\r\n", 400),
        (b"GET /\xff HTTP/1.1\r\nHost: localhost\r\n\r\n", 400),
        (SEARCH + b"Content-Length: -5\r\n\r\n", 400),
        (SEARCH + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nabcdef", 400),
        (SEARCH + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", 400),
        (SEARCH + b"Content-Length: 10000000000000\r\n\r\nabc", 413),
    ],
)
def test_what_is_hardly_http_gets_one_line_of_json(server, sent, status):
    host, port = server.split("/")[2].split(":")
    with socket.create_connection((host, int(port))) as client:
        client.sendall(sent)
        answer = HTTPResponse(client)
        answer.begin()
        assert answer.status == status
        assert list(json.loads(answer.read())) == ["detail"]
        assert answer.getheader("connection") == "close"  # what follows is not read as a request


def test_it_says_what_cannot_be_served(server, indexed, monkeypatch):
    assert "model 'gpt': allowed are" in fail(main, indexed, "gpt")
    port = server.split(":")[2].strip("/")
    assert f"port {port}" in fail(main, indexed, "vse", "--port", port)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    assert "pip install --editable '.[serve]'" in fail(main, indexed, "vse")


def until(browser, condition):
    wait = "const done = arguments[0]; (function look() { const found = (" + condition + ");"
    return browser.execute_async_script(
        wait + "if (found) done(found); else setTimeout(look, 20); })()"
    )


SHOWN = "[...document.querySelectorAll('#hits img')].map(e => e.complete && e.naturalWidth)"


def shown(browser, count):
    until(browser, f"document.querySelectorAll('#hits li').length === {count}")
    until(browser, f"{SHOWN}.every(Boolean)")
    return browser.execute_script(
        "return [...document.querySelectorAll('#hits .name')].map(e => e.textContent)"
    )


def test_a_text_search_and_an_image_search_in_a_browser(server, indexed, browser):
    browser.get_log("browser")
    browser.get(server)
    until(browser, "document.querySelector('#status').textContent.startsWith('9 images · scan')")
    assert "scan_dp_rnn: it averages" in browser.find_element("id", "others").text
    field = browser.find_element("id", "text")
    field.send_keys(TEXT + "\n")
    _, expected = asked(server, f"/api/search?{urlencode({'text': TEXT})}")
    assert shown(browser, 9) == [hit["id"] for hit in expected["hits"]]
    assert "9 images of test, ranked by scan (naive)" in browser.find_element("id", "status").text
    assert "text=" in browser.current_url
    browser.find_element("id", "file").send_keys(str(indexed / "test1.png"))
    _, expected = asked(server, "/api/search", (indexed / "test1.png").read_bytes())
    assert shown(browser, 12) == [hit["id"] for hit in expected["hits"]]
    assert until(browser, "document.querySelector('#asked').naturalWidth") == 32
    assert browser.execute_script("return document.querySelectorAll('#found img').length") == 1
    browser.back()
    until(browser, "document.querySelectorAll('#hits li').length === 9")
    assert browser.get_log("browser") == []  # no error, nothing forbidden by the policy


def test_the_model_can_be_chosen_and_shows_where_it_looks(server, browser):
    browser.get(f"{server}?{urlencode({'text': TEXT, 'model': 'scan', 'top': 6})}")
    _, expected = asked(server, f"/api/search?{urlencode({'model': 'scan', 'text': TEXT})}")
    assert shown(browser, 6) == [hit["id"] for hit in expected["hits"][:6]]
    browser.find_element("css selector", "#hits .look").click()
    assert until(browser, "document.querySelector('#attention').naturalWidth") > 1000
    browser.find_element("id", "close").click()
    browser.find_element("css selector", "#hits img").click()  # its captions
    until(browser, "document.querySelector('#status').textContent.includes('captions of test')")
    field = browser.find_element("id", "text")
    field.send_keys("<img src=x onerror=alert(1)>\n")
    told = until(
        browser,
        "document.querySelector('#status.bad') && document.querySelector('#status').textContent",
    )
    assert "no word of the query is known" in told
    assert browser.find_elements("css selector", "main img[src=x]") == []


def test_on_a_phone_nothing_is_wider_than_the_screen(server, browser):
    resize(browser, 390)
    for path in ("", f"?{urlencode({'text': TEXT})}", "?image=test1.png", "api"):
        browser.get(server + path)
        if path != "api":
            until(browser, "document.querySelector('#hits li, #gallery li')")
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
    resize(browser, 1280)


def test_examples_the_keyboard_and_a_file_that_is_no_image(server, indexed, browser):
    browser.get(server)
    pictures = "[...document.querySelectorAll('#gallery img')].map(e => e.naturalWidth)"
    until(browser, f"{pictures}.filter(Boolean).length === 9")
    browser.execute_script(
        "window.opened = 0; document.getElementById('file').addEventListener('click', "
        "event => { window.opened += 1; event.preventDefault(); })"
    )
    for key in ("\ue007", " "):  # Enter, space
        browser.find_element("id", "pick").send_keys(key)
    assert browser.execute_script("return window.opened") == 2
    browser.find_element("id", "file").send_keys(str(indexed / "params.yaml"))
    until(browser, "document.querySelector('#status.bad')")
    assert "not an image" in browser.find_element("id", "status").text
    assert not browser.find_element("id", "asked").is_displayed()
    browser.back()
    until(browser, "!document.querySelector('#start').hidden")
    first, *others = browser.find_elements("css selector", "#examples button")
    assert len(others) == 5
    text = first.text
    first.click()
    shown(browser, 9)
    assert browser.find_element("id", "text").get_property("value") == text
