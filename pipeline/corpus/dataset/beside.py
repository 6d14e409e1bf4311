"""Which text or which record is of which image, by their names: IMG_1.jpg and IMG_1.txt."""

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from pipeline.corpus.dataset.folder import Folder, joined, shared_parts
from pipeline.corpus.dataset.takeout import name_of_photograph, names_in_record
from pipeline.corpus.dataset.xmp import XMP_ENDING

# Where an image has both, the first is read: tools for training keep tags in `.txt` then.
TEXT_ENDINGS = (".caption", ".txt")
RECORD_ENDINGS = (".json", XMP_ENDING)
BESIDE = "/"  # stands for the folders of the images, where texts lie beside them


@dataclass
class Pairs:
    """Which text is whose, or which record.

    noun: text or record. texts: by image. images_alone, texts_alone: those without the other.
    second_texts: the image of each, which has one already. in_doubt: the images that a text may be
    of. passed: texts of folders that are not meant.
    """

    noun: str
    texts: dict[str, str] = field(default_factory=dict)
    images_alone: list[str] = field(default_factory=list)
    texts_alone: list[str] = field(default_factory=list)
    second_texts: dict[str, str] = field(default_factory=dict)
    in_doubt: dict[str, Sequence[str]] = field(default_factory=dict)
    passed: list[str] = field(default_factory=list)

    @property
    def images(self) -> dict[str, str]:
        """The image of every text, the first of several that it may be."""
        certain = {text: image for image, text in self.texts.items()}
        return certain | {text: several[0] for text, several in self.in_doubt.items()}

    def are_of_most(self, others: Collection[str] = ()) -> bool:
        """Whether most images have one, or are among others.

        Args:
            others: images that count as if they had one.

        Returns:
            Whether they have. Copies of images that have one are not counted.
        """
        own = self.images
        described = set(map(_stem, [*own.values(), *others]))
        alone = set(map(_stem, self.images_alone)) - described
        return len(own) + len({*others}.difference(own.values())) > len(alone)

    def rivals(self) -> dict[tuple[str, str], list[str]]:
        """The images that have texts in two folders, by these folders.

        Returns:
            By the folder of the text that is read and that of the other, both as far as they differ
            and BESIDE for texts that lie beside their images: the other texts. "" is the user's
            folder itself.
        """
        found: dict[tuple[str, str], list[str]] = defaultdict(list)
        for other, image in self.second_texts.items():
            text = self.texts[image]
            if _place(text) != _place(other):
                found[_apart(image, text, other), _apart(image, other, text)].append(other)
        return dict(found)


def _place(file: str) -> str:
    """The folder of a file."""
    return file.rpartition("/")[0]


def _apart(image: str, text: str, other: str) -> str:
    """The folder of a text of an image, as far as it differs from that of another one, or from the
    image's where the other lies beside it."""
    if _place(text) == _place(image):
        return BESIDE
    compared = image if _place(other) == _place(image) else other
    places = _place(text).split("/")
    others = _place(compared).split("/")
    same = 0
    while same < min(len(places), len(others)) and places[same] == others[same]:
        same += 1
    return "/".join(places[: same + 1])


class _Images(NamedTuple):
    """Images by what a text or a record of theirs may be called: beside them, whatever its case
    (folded), and by Google Takeout with its folder, elsewhere without it."""

    paths: Sequence[str]
    beside: Mapping[str, Sequence[str]]
    folded: Mapping[str, Sequence[str]]
    exported: Mapping[str, Sequence[str]]
    elsewhere: Mapping[str, Sequence[str]]


def pairs_of(
    folder: Folder, images_in: str = "", texts_in: str = "", but: Collection[str] = ()
) -> tuple[Pairs, Pairs]:
    """The texts and the records of the images of a folder.

    Args:
        folder: the user's.
        images_in: what the paths of the images begin with.
        texts_in: what those of texts and records begin with.
        but: folders, as `Pairs.rivals` has them, whose texts are not meant.

    Returns:
        The pairs with texts, and those with records.
    """
    images = _images(folder, images_in)
    texts = _paired("text", TEXT_ENDINGS, folder, images, texts_in, but)
    return texts, _paired("record", RECORD_ENDINGS, folder, images, texts_in)


def _stem(file: str) -> str:
    """The name of a file without its folder and its ending."""
    return file.rpartition("/")[2].rpartition(".")[0]


def _images(folder: Folder, images_in: str) -> _Images:
    """The images of a folder."""
    others = set(folder.others)
    paths = [path for path in folder if path.startswith(images_in) and path not in others]
    beside: dict[str, list[str]] = defaultdict(list)
    folded: dict[str, list[str]] = defaultdict(list)
    exported: dict[str, list[str]] = defaultdict(list)
    elsewhere: dict[str, list[str]] = defaultdict(list)
    for image in paths:
        stem = image.rpartition(".")[0]
        place, _, file = image.rpartition("/")
        beside[image].append(image)  # IMG_1.jpg.txt
        beside[stem].append(image)
        folded[stem.lower()].append(image)
        exported[joined(place, name_of_photograph(file))].append(image)
        elsewhere[stem.rpartition("/")[2]].append(image)
    return _Images(paths, beside, folded, exported, elsewhere)


def _paired(
    noun: str,
    endings: Sequence[str],
    folder: Folder,
    images: _Images,
    texts_in: str,
    but: Collection[str] = (),
) -> Pairs:
    """The text of every image: the one beside it, else the only one of its name in another folder,
    of several the one with the most folders in common: images/train/1.jpg, texts/train/1.txt."""
    pairs = Pairs(noun)
    texts = [
        (text, text[: -len(ending)])
        for ending in endings
        for text in folder.matching(f"*{ending}")
        if text.startswith(texts_in)
    ]
    apart = []
    not_meant = tuple(f"{place}/" for place in but if place not in (BESIDE, ""))
    for text, stem in texts:
        is_beside = stem in images.beside
        is_above = "/" not in text and not is_beside
        if text.startswith(not_meant) or (BESIDE in but and is_beside) or ("" in but and is_above):
            pairs.passed.append(text)
        elif is_beside:
            _give(pairs, text, images.beside[stem])
        else:
            apart.append((text, stem))
    unclear = {}
    theirs = _folders_of_each_other([stem for _, stem in texts], images)
    for text, stem in apart:  # what lies beside an image is its own, whatever lies elsewhere
        exported = _exported(stem, images) if noun == "record" else []
        place, _, name = stem.rpartition("/")
        elsewhere = [
            image
            for image in images.elsewhere.get(name, [])
            if not theirs.are_of_others(place, image.rpartition("/")[0])
        ]
        nearest = exported or images.folded.get(stem.lower()) or _nearest(text, elsewhere)
        if len(nearest) > 1:
            unclear[text] = nearest
        else:
            _give(pairs, text, nearest)
    for text, several in unclear.items():
        if pairs.texts.keys().isdisjoint(several):
            pairs.in_doubt[text] = several
        else:
            pairs.texts_alone.append(text)
    pairs.images_alone = [image for image in images.paths if image not in pairs.texts]
    return pairs


class _Folders(NamedTuple):
    """The folder of images that a folder of texts is of, and the other way round."""

    images: Mapping[str, str]
    texts: Mapping[str, str]

    def are_of_others(self, texts: str, images: str) -> bool:
        """Whether either folder is of another one: a text whose image is missing is not that of an
        image of the same name there."""
        return self.images.get(texts, images) != images and self.texts.get(images, texts) != texts


def _folders_of_each_other(stems: Sequence[str], images: _Images) -> _Folders:
    """Which folders of texts and of images are of each other: called alike, and most files of each
    have one of the same name in the other.

    Args:
        stems: the paths of the texts without their endings.
        images: of the folder.
    """
    shared: Counter[tuple[str, str]] = Counter()
    for stem in stems:
        place, _, name = stem.rpartition("/")
        for image in {image.rpartition("/")[0] for image in images.elsewhere.get(name, [])}:
            if place == image or shared_parts(place, image):
                shared[place, image] += 1
    of_texts = Counter(stem.rpartition("/")[0] for stem in stems)
    of_images = Counter(image.rpartition("/")[0] for image in images.paths)
    found = [
        (texts, place)
        for (texts, place), number in shared.items()
        if 2 * number > max(of_texts[texts], of_images[place])
    ]
    return _Folders(
        images={texts: place for texts, place in found},
        texts={place: texts for texts, place in found},
    )


def _exported(stem: str, images: _Images) -> Sequence[str]:
    """The image beside a record that Google Takeout called by it; empty where none or several may
    be meant."""
    place, _, name = stem.rpartition("/")
    found = [images.exported.get(joined(place, own), ()) for own in names_in_record(name)]
    return next((own for own in found if len(own) == 1), ())


def _nearest(text: str, images: Sequence[str]) -> Sequence[str]:
    """The images with the most folders of the text's path."""
    if len(images) < 2:
        return images
    folders = set(text.split("/")[:-1])
    shared = [len(folders & set(image.split("/")[:-1])) for image in images]
    return [image for image, number in zip(images, shared, strict=True) if number == max(shared)]


def _give(pairs: Pairs, text: str, images: Sequence[str]) -> None:
    """Note a text for the only image that it can be of."""
    if not images:
        pairs.texts_alone.append(text)
    elif len(images) > 1:
        pairs.in_doubt[text] = images
    elif images[0] in pairs.texts:
        pairs.second_texts[text] = images[0]
    else:
        pairs.texts[images[0]] = text
