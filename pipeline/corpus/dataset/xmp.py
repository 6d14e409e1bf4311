"""Sidecars of photographs in XMP, `IMG_1.jpg.xmp`: what digiKam, darktable, Lightroom and Immich
keep of a photograph, of which a description and a title are read."""

from pathlib import Path
from xml.etree.ElementTree import Element, ParseError, TreeBuilder, XMLParser

from pipeline.runtime.errors import WorkbenchError

XMP_ENDING = ".xmp"
FIELDS = ("description", "title")  # of Dublin Core
_DC = "{http://purl.org/dc/elements/1.1/}"
_RDF = "{http://www.w3.org/1999/02/22-rdf-syntax-ns#}"
_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_DEFAULT = "x-default"


class _Builder(TreeBuilder):
    """A document without declarations: entities may make gigabytes of a few lines."""

    def doctype(self, name: str, public: str | None, system: str | None) -> None:
        raise ParseError(f"a document type, {name!r}, which is not read")


def read_xmp(path: Path) -> dict[str, str]:
    """The description and the title in a sidecar.

    Args:
        path: a file of XMP.

    Returns:
        Those that it has, in the default language, else the first.

    Raises:
        WorkbenchError: the file is no XML, or declares entities.
    """
    parser = XMLParser(target=_Builder())
    try:
        parser.feed(path.read_bytes())
        root: Element = parser.close()
    except (ParseError, ValueError, LookupError, OSError) as error:
        raise WorkbenchError(f"{path}: cannot be read as XMP: {error}") from None
    texts = {name: _text_of(root, name) for name in FIELDS}
    return {name: text for name, text in texts.items() if text}


def _text_of(root: Element, name: str) -> str:
    """The text of a field: one of a list in several languages, its own, or an attribute."""
    for field in root.iter(f"{_DC}{name}"):
        listed = list(field.iter(f"{_RDF}li"))
        default = [own for own in listed if own.get(_LANGUAGE) == _DEFAULT]
        own = [*default, *listed, field][0]
        return (own.text or "").strip()
    described = (own.get(f"{_DC}{name}") for own in root.iter(f"{_RDF}Description"))
    return next((text.strip() for text in described if text), "")
