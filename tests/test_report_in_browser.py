"""The page in a real browser: loads from disk without an error, shows its images, sorts its table.

Skipped only where there is no Chromium, or no driver for it.
"""

import pytest
from browsers import resize
from report_world import made_scores, page_of, put_attention, put_corpus, put_model, put_phrases


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """A page on disk: two models, one with a second criterion and attention; two of phrases."""
    folder = tmp_path_factory.mktemp("report")
    put_corpus(folder)
    put_model(folder, "weak", made_scores(0.1))
    put_model(folder, "strong", made_scores(0.6), csls=True)
    put_attention(folder, "strong")
    put_phrases(folder, "few", "a_model_of_a_long_name")
    more = {"curves": ["strong"], "attention": ["strong"]}
    more["phrases"] = "few", "a_model_of_a_long_name"
    text = page_of(folder, "weak", "strong", **more)
    (folder / "index.html").write_text(text, encoding="utf-8")
    return (folder / "index.html").as_uri()


@pytest.fixture
def opened(browser, page):
    """The browser with the page loaded at desktop size, console emptied before."""
    resize(browser, 1280, "light")
    browser.get_log("browser")
    browser.get(page)
    return browser


def script(browser, expression):
    return browser.execute_script(f"return {expression}")


def labels(browser):
    rows = "[...document.querySelectorAll('.sortable th[data-value]')].map(e => e.dataset.value)"
    return script(browser, rows)


def test_loads_without_a_word_on_the_console(opened):
    assert opened.get_log("browser") == []
    assert opened.title == "Image-text retrieval on shapes"
    assert (
        script(
            opened,
            "performance.getEntriesByType('resource').filter(e => "
            "!e.name.startsWith('data:')).length",
        )
        == 0
    )


def test_every_image_is_shown(opened):
    script(opened, "document.querySelectorAll('details').forEach(e => e.open = true)")
    sizes = script(opened, "[...document.images].map(e => [e.naturalWidth, e.clientWidth])")
    assert len(sizes) > 20
    assert all(natural >= 24 and shown > 0 for natural, shown in sizes)
    drawn = script(
        opened,
        "[...document.querySelectorAll('figure svg[role=img]')]"
        ".map(e => e.getBoundingClientRect().height)",
    )
    assert len(drawn) == 5
    assert min(drawn) > 100


@pytest.mark.parametrize("width", [375, 1280])
def test_attention_is_shown_word_by_word(opened, width):
    resize(opened, width, "light")
    script(opened, "document.querySelectorAll('details').forEach(e => e.open = true)")
    pairs = "[...document.querySelectorAll('.attended .words:not(.phrases)')]"
    cells = f"{pairs}.map(e => [...e.children].map("
    sizes = script(opened, f"{cells}c => [c.querySelector('img').clientWidth, c.offsetTop]))")
    assert [len(pair) for pair in sizes] == [4, 4]  # the whole image and three words
    for pair in sizes:
        whole, *words = (wide for wide, _ in pair)
        assert min(words) >= 80
        assert whole > 1.8 * words[0]
    assert script(opened, f"{cells}c => c.innerText.trim().split('\\n')[0]))")[0][1::2] == [
        "red",
        "dog",
    ]
    bars = "[...document.querySelectorAll('.attended ul')[0].querySelectorAll('.share span')]"
    shares = script(opened, f"{bars}.map(e => e.offsetWidth / e.parentElement.offsetWidth)")
    assert shares == pytest.approx([1, 0.2, 0.8], abs=0.02)
    marks = "[...document.querySelectorAll('.attended .asked .mark')].map(e => e.textContent)"
    assert [mark.split()[1] for mark in script(opened, marks)] == ["false", "true"]


def test_a_click_sorts_and_a_second_one_turns_around(opened):
    assert labels(opened) == ["strong", "weak", "strong + csls"]
    button = opened.find_element("css selector", "th[data-column='1'] button")
    button.click()
    rows = "[...document.querySelector('.sortable tbody').rows]"
    values = f"{rows}.map(e => +e.cells[1].dataset.value)"
    falling = script(opened, values)
    assert falling == sorted(falling, reverse=True)
    state = (
        "[...document.querySelectorAll('th[aria-sort]')].map(e => [e.dataset.column, e.ariaSort])"
    )
    assert script(opened, state) == [["1", "descending"]]
    button.click()
    assert script(opened, values) == sorted(falling)
    apart = "document.querySelectorAll('.sortable tbody')[1].innerText"
    assert script(opened, apart).startswith("Transductive")  # its title stays on top of its rows
    assert script(opened, state) == [["1", "ascending"]]
    assert script(opened, "document.querySelector('.sortable tfoot th').textContent") == "chance"


def test_the_keyboard_sorts(opened):
    button = opened.find_element("css selector", "th[data-column='0'] button")
    button.send_keys("\ue007")  # Enter
    button.send_keys("\ue007")
    assert labels(opened) == ["weak", "strong", "strong + csls"]
    assert script(opened, "document.activeElement.parentElement.ariaSort") == "descending"


SHOWN = (
    "[...document.querySelectorAll('.sortable tbody:first-of-type tr:nth-child(2) > *')]"
    ".filter(e => e.offsetWidth).length"
)
CUT = (
    "[...document.querySelectorAll('{}')].filter(e => e.scrollWidth > e.clientWidth)"
    ".map(e => e.outerHTML.slice(0, 90))"
)


@pytest.mark.parametrize(("width", "columns"), [(390, 4), (768, 10), (1280, 10), (1440, 10)])
def test_nothing_is_cut_at_the_side(opened, width, columns):
    resize(opened, width, "light")
    script(opened, "document.querySelectorAll('details').forEach(e => e.open = true)")
    assert script(opened, "innerWidth") == width
    assert script(opened, "document.documentElement.scrollWidth") <= width
    assert script(opened, SHOWN) == columns
    assert script(opened, CUT.format(".scroll, .query, table.phrases *")) == []
    opened.find_element("id", "more").click()
    assert script(opened, SHOWN) == 16
    assert script(opened, "document.documentElement.scrollWidth") <= width
    if width >= 1280:
        assert script(opened, CUT.format(".scroll")) == []


def test_paper_has_every_column(opened):
    resize(opened, 1047, "light")  # A4 across, less 10 mm on each side
    opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": "print"})
    try:
        assert script(opened, SHOWN) == 16
        widest = "[...document.querySelectorAll('table')].map(e => e.getBoundingClientRect().right)"
        assert max(script(opened, widest)) <= 1047
    finally:
        opened.execute_cdp_cmd("Emulation.setEmulatedMedia", {"media": ""})


def test_pictures_enlarge_by_click_and_by_keys(opened):
    script(opened, "document.querySelectorAll('details').forEach(e => e.open = true)")
    picture = opened.find_element("css selector", ".hit button.zoom")
    pixels = script(opened, "document.querySelector('.hit img').naturalWidth")
    large = "document.querySelector('dialog[open] img')"
    picture.send_keys("\ue007")  # Enter
    assert script(opened, f"{large}.clientWidth") == 2 * pixels
    same = f"{large}.src === document.querySelector('.hit img').src"
    assert script(opened, same) is True
    opened.switch_to.active_element.send_keys("\ue00c")  # Escape
    assert script(opened, large) is None
    assert opened.switch_to.active_element == picture
    picture.click()
    opened.find_element("css selector", "dialog img").click()
    assert script(opened, large) is None


def test_dark_is_dark_and_light_is_light(opened):
    numbers = ".match(/\\d+/g).map(Number)"
    page = f"getComputedStyle(document.body).backgroundColor{numbers}"
    assert min(script(opened, page)) > 200
    resize(opened, 1280, "dark")
    assert max(script(opened, page)) < 60
    text = f"getComputedStyle(document.querySelector('figure svg text')).fill{numbers}"
    assert min(script(opened, text)) > 200
