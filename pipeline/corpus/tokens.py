"""One way to cut captions into words, so that corpora of different sources share a vocabulary.

A text alone decides how it is cut, so that a query is cut as the captions are. English comes out as
in most of the field's files: `the dog's` is `the`, `dog`, `'s`. Beyond English:

- A word keeps its marks: vowel signs, tones, accents that have no letter of their own.
- Scripts without blanks between words are cut into characters, with their marks.
- An elided word is one of its own: `l'homme` is `l'`, `homme`. So it is with a blank after it.
- An apostrophe is a letter inside a Cyrillic word, gershayim and geresh are inside a Hebrew one.
"""

import re
import unicodedata
from collections.abc import Sequence

import regex

# Characters that look alike, or are typed for one another.
_SAME = {
    "\u2019": "'",  # the typographic apostrophe
    "\u3164": " ",  # Hangul fillers: letters by category, blanks to the eye
    "\uffa0": " ",
}
# Letters in another width, place in the word or typeface: each has one plain form.
_FORMS = regex.compile(
    r"[\ufb00-\ufb06\ufb50-\ufdff\ufe70-\ufefc\uff01-\uffee\U0001d400-\U0001d7ff]+"
)
# Malayalam's letters without a vowel, as texts before Unicode 5.1 write them.
_CHILLU = regex.compile("([ണനരലളക])\u0d4d\u200d")
_CHILLUS = dict(zip("ണനരലളക", "ൺൻർൽൾൿ", strict=True))
# What has no width of its own: soft hyphens, marks of direction, variants of emoji. The blank
# without width goes between words. The joiners are spelling in Persian, Sinhala and Bengali alone.
# Further the stretched line of Arabic, and marks of stress and tone inside Armenian words.
_UNSEEN = regex.compile(
    r"(?V1)[[\p{Cf}\p{Default_Ignorable_Code_Point}]--[\u200b-\u200d]]"
    r"|\u200c(?![\p{Arabic}&&\p{L}])|\u200d(?![\p{Sinhala}\u09cd])"
    r"|\u0640|(?<=\p{Armenian})[\u055b\u055c\u055e]"
)
_CYRILLIC_APOSTROPHE = regex.compile(r"(?<=\p{Cyrillic})\u02bc(?=\p{Cyrillic})")
# A quotation mark is none inside a Hebrew word: before its last letter, or after g, z and ts.
_HEBREW = r"[\p{Hebrew}&&\p{L}]"
_GERSHAYIM = regex.compile(
    rf'(?V1)(?<={_HEBREW}\p{{Mn}}*)"(?={_HEBREW}\p{{Mn}}*+(?![\p{{L}}\p{{N}}]))'
)
_GERESH = regex.compile(rf"(?V1)(?<={_HEBREW}\p{{Mn}}*)'(?={_HEBREW})|(?<=[גזצץ])'")
# Only Turkish and its next of kin have these letters; they write I for a capital dotless i.
_TURKISH = regex.compile("[ğĞıİ]")
_CAPITAL_I = regex.compile(r"I(?=\p{L})|(?<=\p{L})I")

_MARK = r"[\p{Mn}\p{Mc}]"
_WITHIN = r"[\p{L}\p{N}\p{M}]"
_UNSPACED = (
    r"[[\p{Han}\p{Hiragana}\p{Katakana}\p{Bopomofo}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}"
    r"\p{Tai_Le}\p{New_Tai_Lue}\p{Tai_Tham}\p{Tai_Viet}\u30fc]&&[[\p{L}\p{N}]--\p{Nd}]]"
)
_SPACED = rf"[[\p{{L}}\p{{N}}]--{_UNSPACED}]"
# A character of a script without blanks, with its marks: also am of Thai and Lao, which is a letter
# by category, and the letter below, after a sign that stacks (Khmer, Burmese, Tai Tham).
_CHARACTER = rf"{_UNSPACED}(?:{_MARK}|[\u0e33\u0eb3]|(?<=[\u17d2\u1039\u1a60]){_UNSPACED})*"
# Words that lose their last letter before a vowel or h, in French, Italian and Catalan. The list is
# closed, as English writes o'clock, y'all and ma'am.
_ELIDED = (
    r"(?:[cdjlmnstv]|qu|jusqu|lorsqu|puisqu|quoiqu|quelqu|presqu|entr"
    r"|un|gl|(?:a|da|de|ne|su|co|pe)ll|(?:a|da|de|ne|su)gl|bell|quell|quest|sant|grand|buon|pover"
    r"|nessun|ciascun|qualcun|alcun|com|cos|dov|quand|anch|neanch|mezz|senz|tutt|tant|quant|altr"
    r"|ogn|cent|vent|trent|quarant|cinquant|sessant|settant|ottant|novant)"
)
_VOWEL = r"(?:[aàáâãäåăeèéêëěiìíîïoòóôõöőuùúûüűœæøh]|y(?![ao])|\p{Nd})"
# With a blank after it, an elided word looks like the end of a quotation ('l' and), or of U.S.'
_ELISION = (
    rf"(?:(?<!{_WITHIN}'?){_ELIDED}'(?={_VOWEL})|(?<!{_WITHIN}|['.]){_ELIDED}'(?=\s+{_VOWEL}))"
)
# What may stand inside a word: the apostrophe of Ukrainian, geresh and gershayim of Hebrew, the
# point of Catalan (col·lecció), the joiners that are spelling.
_INSIDE = (
    r"(?<=\p{Cyrillic}\p{Mn}*)'(?=\p{Cyrillic})"
    rf"|(?<={_HEBREW}\p{{Mn}}*)[\u05f3\u05f4](?={_HEBREW})|(?<=[גזצץ])\u05f3"
    r"|(?<=l)·(?=l)|[\u200c\u200d](?=[\p{L}\p{M}])"
)
_APOSTROPHE = rf"(?:'(?!{_ELISION})(?=[\p{{Latin}}\p{{N}}]))?"  # English 's, Turkish 'da
_WORD = regex.compile(
    rf"(?V1){_CHARACTER}|{_ELISION}|(?<!{_WITHIN})aujourd'hui(?!{_WITHIN})"
    rf"|{_APOSTROPHE}{_SPACED}(?:{_SPACED}|{_MARK}|{_INSIDE})*"
)
_PLAIN = re.compile("[a-z0-9]+")  # the same in text without accents and apostrophes, much faster
_ALONE = regex.compile(rf"(?V1){_CHARACTER}")
_AFTER_ELISION = regex.compile(rf"(?V1)(?<={_ELISION}) ")
_BETWEEN_CHARACTERS = regex.compile(rf"(?V1)(?<={_UNSPACED}{_MARK}*) (?={_UNSPACED})")


def tokenise(text: str) -> list[str]:
    """Lower-cased words of a caption; punctuation is dropped, `'s` stays a word of its own."""
    plain = folded(text)
    return (_PLAIN if plain.isascii() and "'" not in plain else _WORD).findall(plain)


def folded(text: str) -> str:
    """A text in the letters by which words are compared: composed (NFC) and in lower case.

    Capital I is a dotless one where the text has a letter that only Turkish and its kin have.
    """
    if text.isascii():
        return text.lower()
    for old, new in _SAME.items():
        text = text.replace(old, new)
    text = _FORMS.sub(lambda found: unicodedata.normalize("NFKC", found[0]), text)
    text = _CHILLU.sub(lambda found: _CHILLUS[found[1]], text)
    text = unicodedata.normalize("NFC", _UNSEEN.sub("", text))
    text = _CYRILLIC_APOSTROPHE.sub("'", text)
    text = _GERESH.sub("\u05f3", _GERSHAYIM.sub("\u05f4", text))
    if _TURKISH.search(text):
        text = _CAPITAL_I.sub("\u0131", text).replace("İ", "i")
    # i with a dot of its own is what lower() makes of İ
    return unicodedata.normalize("NFC", text.lower().replace("i\u0307", "i"))


def is_character(word: str) -> bool:
    """Whether a word is a character of a script without blanks between words."""
    return _ALONE.fullmatch(word) is not None


def joined(words: Sequence[str]) -> str:
    """The words of a caption as a text to read, with blanks where their scripts write them."""
    text = " ".join(words).replace(" '", "'")  # dog 's: dog's
    if text.isascii() and "' " not in text:
        return text
    return _BETWEEN_CHARACTERS.sub("", _AFTER_ELISION.sub("", text))
