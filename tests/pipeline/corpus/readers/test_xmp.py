"""Sidecars in XMP beside photographs are read as their records, and never as programs."""

import pytest
from reader_cases import read_all, save_images, texts_of

from pipeline.runtime.errors import WorkbenchError

NAMES = [f"p{number}.jpg" for number in range(4)]
TEXTS = [f"Ein Hund läuft an Haus {number} vorbei." for number in range(4)]
CAPTIONS = {name: [text] for name, text in zip(NAMES, TEXTS, strict=True)}
BEGIN = (
    '<?xpacket begin="\ufeff"?><x:xmpmeta xmlns:x="adobe:ns:meta/">'
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#"'
    ' xmlns:dc="http://purl.org/dc/elements/1.1/">'
)
END = '</rdf:RDF></x:xmpmeta><?xpacket end="w"?>'
ALT = (
    '<rdf:Description><dc:title><rdf:Alt><rdf:li xml:lang="x-default">Trip</rdf:li></rdf:Alt>'
    '</dc:title><dc:description><rdf:Alt><rdf:li xml:lang="en">In English</rdf:li>'
    '<rdf:li xml:lang="x-default"> {} </rdf:li></rdf:Alt></dc:description></rdf:Description>'
)
FORMS = {
    "alt": ALT,
    "plain": "<rdf:Description><dc:description>{}</dc:description></rdf:Description>",
    "attribute": '<rdf:Description dc:description="{}"/>',
}


def write(folder, named, form=ALT, encoding="utf-8"):
    save_images(folder, *NAMES)
    for name, text in zip(NAMES, TEXTS, strict=True):
        content = f"{BEGIN}{form.format(text)}{END}"
        (folder / named(name)).write_bytes(content.encode(encoding))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    "named", [lambda name: f"{name}.xmp", lambda name: f"{name[:-4].upper()}.XMP"]
)
def test_descriptions_are_captions(tmp_path, form, named):
    write(tmp_path, named, FORMS[form])
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_a_sidecar_may_have_another_encoding(tmp_path):
    write(tmp_path, lambda name: f"{name}.xmp", encoding="utf-16")
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_a_title_is_read_where_no_other_text_is_there(tmp_path):
    form = "<rdf:Description><dc:title>{}</dc:title></rdf:Description>"
    write(tmp_path, lambda name: f"{name}.xmp", form)
    assert texts_of(read_all("auto", tmp_path)) == CAPTIONS


def test_a_photograph_without_a_description_is_left_out(tmp_path):
    write(tmp_path, lambda name: f"{name}.xmp")
    (tmp_path / "p1.jpg.xmp").write_text(BEGIN + "<rdf:Description/>" + END)
    found = read_all("auto", tmp_path)
    assert "p1.jpg" not in texts_of(found)
    assert len(found.images) == 3


@pytest.mark.parametrize(
    "content",
    [
        '<!DOCTYPE x [<!ENTITY a "A dog runs."><!ENTITY b "&a;&a;">]>' + "<x>&b;</x>",
        "<x:xmpmeta",
        "no XML",
    ],
)
def test_what_is_no_plain_xml_is_named(tmp_path, content):
    write(tmp_path, lambda name: f"{name}.xmp")
    (tmp_path / "p1.jpg.xmp").write_text(content)
    with pytest.raises(WorkbenchError, match=r"p1\.jpg\.xmp: cannot be read as XMP"):
        read_all("auto", tmp_path)


def test_a_table_of_captions_is_read_before_sidecars(tmp_path):
    write(tmp_path, lambda name: f"{name}.xmp")
    lines = [f"{name},A cat in house {number}." for number, name in enumerate(NAMES)]
    (tmp_path / "captions.csv").write_text("\n".join(["image,caption", *lines]))
    assert texts_of(read_all("auto", tmp_path))["p0.jpg"] == ["A cat in house 0."]
