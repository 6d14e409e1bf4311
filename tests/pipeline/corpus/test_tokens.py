import json
import re
import unicodedata
from pathlib import Path

import pytest
from corpora import ROOT
from hypothesis import given
from hypothesis import strategies as st
from reader_cases import options
from scene_reading import RAW

from pipeline.corpus.readers import shapes
from pipeline.corpus.readers.shapes.drawing import box
from pipeline.corpus.readers.shapes.mentions import plain
from pipeline.corpus.tokens import folded, is_character, joined, tokenise

MINI = Path(__file__).resolve().parents[4] / "shared" / "flickr8k-mini"
ENGLISH = re.compile(r"'?[^\W_]+")  # how every text was cut before other languages were read


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("A dog , a cat .", ["a", "dog", "a", "cat"]),
        ("Snow-covered T-shirts", ["snow", "covered", "t", "shirts"]),
        ("a person 's arms", ["a", "person", "'s", "arms"]),
        ("the dog's 2 toys_and", ["the", "dog", "'s", "2", "toys", "and"]),
        ("the dog\u2019s", ["the", "dog", "'s"]),
        ("Cafe\u0301 ÜBER", ["caf\u00e9", "über"]),
        (" .,;!\n\t-- ' ", []),
    ],
)
def test_words(text, tokens):
    assert tokenise(text) == tokens


# Words of a caption, joined by blanks.
LANGUAGES = {
    "Hindi": ("दो बच्चे नीली नाव देख रहे हैं।", "दो बच्चे नीली नाव देख रहे हैं"),
    "Hindi, two verses": ("लड़की किताब पढ़ती है॥ २ कुत्ते", "लड़की किताब पढ़ती है २ कुत्ते"),
    "Bengali": ("দুটি শিশু নীল নৌকা দেখছে।", "দুটি শিশু নীল নৌকা দেখছে"),
    "Tamil": ("இரண்டு நாய்கள் ஓடுகின்றன.", "இரண்டு நாய்கள் ஓடுகின்றன"),
    "Telugu": ("ఒక కుక్క పరుగెత్తుతోంది", "ఒక కుక్క పరుగెత్తుతోంది"),
    "Malayalam": ("ഒരു നായ ഓടുന്നു", "ഒരു നായ ഓടുന്നു"),
    "Sinhala": ("ශ්\u200dරී ලංකාවේ බල්ලා", "ශ්\u200dරී ලංකාවේ බල්ලා"),
    "Tibetan": ("ཁྱི་དཀར་པོ།", "ཁྱི དཀར པོ"),
    "Thai": ("เด็กสองคน", "เ ด็ ก ส อ ง ค น"),
    "Thai, am": ("สีน้ำเงิน ๑๒ คน", "สี น้ำ เ งิ น ๑๒ ค น"),
    "Lao": ("ນ້ຳສີຟ້າ", "ນ້ຳ ສີ ຟ້ າ"),
    "Khmer": ("ស្រីពីរនាក់", "ស្រី ពី រ នា ក់"),
    "Burmese": ("မြန်မာခွေး", "မြ န် မာ ခွေး"),
    "Burmese, stacked": ("တက္ကသိုလ်", "တ က္က သို လ်"),
    "Chinese": ("一个男孩，看着黑狗。", "一 个 男 孩 看 着 黑 狗"),
    "Chinese and Latin": ("一只Dog在2张T恤旁", "一 只 dog 在 2 张 t 恤 旁"),
    "Chinese, full width": ("ＡＢＣ　１２只狗'好'", "abc 12 只 狗 好"),
    "Japanese": ("黒い犬が人々とボールで", "黒 い 犬 が 人 々 と ボ ー ル で"),
    "Japanese, half width": ("ﾄﾞｱのｲﾇ", "ド ア の イ ヌ"),
    "Korean": ("검은 개가 공원에서 달린다.", "검은 개가 공원에서 달린다"),
    "Arabic": ("كلبٌ أسود يركض، في الحديقة؟", "كلبٌ أسود يركض في الحديقة"),
    "Arabic, stretched": ("كـــلب ﻻ", "كلب لا"),
    "Persian": ("سگ می\u200cدود.", "سگ می\u200cدود"),
    "Hebrew": ("שני כלבים רצים בים־המלח", "שני כלבים רצים בים המלח"),
    "Hebrew, points": ("כֶּלֶב שָׁחֹר", "כֶּלֶב שָׁחֹר"),
    "Hebrew, geresh": ("ג'ירפה וצ׳יפס, סנדוויץ'", "ג׳ירפה וצ׳יפס סנדוויץ׳"),
    "Hebrew, quoted": ('צה"ל צה״ל ה"כלב" הלך', "צה״ל צה״ל ה כלב הלך"),
    "French": ("L'homme près d\u2019un arbre n'y va", "l' homme près d' un arbre n' y va"),
    "French, spaced": ("l' homme aujourd'hui qu'on", "l' homme aujourd'hui qu' on"),
    "French, quoted": ("« 'l'eau' » d'aujourd'hui", "l' eau d' aujourd'hui"),
    "Italian": (
        "Un'altra ragazza nell'acqua, c'è l'11",
        "un' altra ragazza nell' acqua c' è l' 11",
    ),
    "Catalan": ("L'home d'una col·lecció", "l' home d' una col·lecció"),
    "German": ("Ein großer Hund läuft, GROẞ", "ein großer hund läuft groß"),
    "Dutch": ("'s Morgens foto's", "'s morgens foto 's"),
    "Turkish": ("İstanbul'da IŞIKLAR, ılık", "istanbul 'da ışıklar ılık"),
    "Turkish, Roman one": ("Dünya Savaşı I", "dünya savaşı i"),
    "Greek": ("ΔΎΟ ΣΚΎΛΟΣ τρέχει, απ'την", "δύο σκύλος τρέχει απ την"),
    "Russian": ("Собака в 'озере' — за́мок Ёлка", "собака в озере за́мок ёлка"),
    "Ukrainian": ("М'яч і п\u2019ять об\u02bcєктів", "м'яч і п'ять об'єктів"),
    "Armenian": ("Ի՞նչ շուն է", "ինչ շուն է"),
    "Georgian": ("ძაღლი დარბის", "ძაღლი დარბის"),
    "Amharic": ("ውሻ፡ይሮጣል።", "ውሻ ይሮጣል"),
    "Vietnamese": ("Một con chó đang chạy", "một con chó đang chạy"),
    "Yoruba": ("Ajá ọ̀kan ń sá", "ajá ọ̀kan ń sá"),
    "emoji": ("a dog 🐕\u200d🦺 ❤\ufe0f 1\ufe0f\u20e3 time 👍🏽", "a dog 1 time"),
    "soft hyphen": ("Hun\u00addehütte \ufeffBau\u200cwerk", "hundehütte bauwerk"),
    "typeface": ("𝐛𝐥𝐚𝐜𝐤 ﬁsh", "black fish"),
}


@pytest.mark.parametrize(("text", "words"), LANGUAGES.values(), ids=LANGUAGES)
def test_words_of_other_languages(text, words):
    assert tokenise(text) == unicodedata.normalize("NFC", words).split(" ")


@pytest.mark.parametrize(("text", "words"), LANGUAGES.values(), ids=LANGUAGES)
@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_letters_in_parts_are_the_same_letters(text, words, form):
    assert tokenise(unicodedata.normalize(form, text)) == tokenise(text)


def test_the_table_of_the_docs_is_right():
    table = (ROOT / "docs" / "languages.md").read_text(encoding="utf-8").split("| rule |")[1]
    rows = [line.split("|")[1:3] for line in table.split("\n\n")[0].splitlines()[2:]]
    assert len(rows) >= 8
    for row in rows:
        text, words = (re.findall("`(.+?)`", cell) for cell in row)
        assert tokenise(" ".join(text)) == words


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("क्\u200dया", "क्या"),
        ("അവന്\u200d", "അവൻ"),  # Malayalam before Unicode 5.1
        ("葛\U000e0100", "葛"),
        ("بـيت", "بيت"),
        ("d\u2019eau", "d'eau"),
        ("i\u0307stanbul", "İstanbul"),
    ],
)
def test_two_codings_of_a_word_are_one_word(one, other):
    assert tokenise(one) == tokenise(other)


SENTENCES = [
    "The dog's owner doesn't see the dogs' ball.",
    "It's five o'clock, don't 'quoted' words stay?",
    "Rock 'n' roll and rock'n'roll, y'all; fish'n'eggs",
    "ma'am, she'd've said I'm in the '90s, the U.S.' only entry",
    "a letter 'l' and a 'd' are 's eyes",
    "A BLACK-and-white dog_house No.5 at 5'10\" costs $2.50!",
    "s'mores c'mon d'you g'day t'was o'er O'Hara's qur'an",
]


@pytest.mark.parametrize("text", SENTENCES)
def test_english_is_cut_as_it_was(text):
    assert tokenise(text) == ENGLISH.findall(text.lower())
    typographic = text.replace("'", "\u2019")
    assert tokenise(typographic) == tokenise(text)


@pytest.mark.parametrize("settings", [{}, {"synonyms": True, "relations": "between"}])
def test_captions_of_the_built_in_dataset_are_cut_as_they_were(settings):
    chosen = options(train=150, val=1, test=1, image_size=96, **settings)
    world = shapes.world_of(RAW, chosen.shapes)
    texts = []
    for task in shapes.scenes_of(world, chosen):
        boxes = [box(thing, world, 96) for thing in task.scene.things]
        texts += map(plain, shapes.spoken(task, boxes, world, chosen.shapes))
    assert len(texts) > 300
    assert list(map(tokenise, texts)) == [ENGLISH.findall(text.lower()) for text in texts]


@given(st.text(st.characters(max_codepoint=127)).filter(lambda text: "'" not in text))
def test_without_apostrophes_plain_letters_are_cut_as_they_were(text):
    assert tokenise(text) == ENGLISH.findall(text.lower())


PIECES = (
    "aAhIiİıßΣσ'’\" .ldnéñ·дюіיגצ׳״سی،\u200c\u200dක්රකिख्नേം中国々ボーกำ็้กែស្រីတက္က"
    "각１ﾄﾞｶ\u0301\u0307\u00ad\u200b2½\u02bc"
)


@given(st.text() | st.text(st.sampled_from(PIECES)))
def test_words_are_lower_case_without_space_and_stable(text):
    words = tokenise(text)
    assert all(word and word == word.lower() and not any(map(str.isspace, word)) for word in words)
    assert all(word == folded(word) for word in words)
    assert tokenise(" ".join(words)) == words


@given(st.text() | st.text(st.sampled_from(PIECES)), st.sampled_from(["NFC", "NFD"]))
def test_any_text_is_cut_alike_in_parts(text, form):
    assert tokenise(unicodedata.normalize(form, text)) == tokenise(text)


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("The dog's ball, quickly", "the dog's ball quickly"),
        ("L'homme et l' enfant", "l'homme et l'enfant"),
        ("一只 dog 在2张", "一只 dog 在 2 张"),
        ("เด็กสองคน", "เด็กสองคน"),
        ("नीली नाव", "नीली नाव"),
    ],
)
def test_words_are_joined_with_the_blanks_of_their_script(text, read):
    assert joined(tokenise(text)) == read


def test_characters_are_told_from_words():
    assert list(map(is_character, ["狗", "น้ำ", "ស្រី", "ー"])) == [True] * 4
    assert list(map(is_character, ["狗狗", "dog", "a", "नी", "개", "2"])) == [False] * 6


@pytest.mark.skipif(not MINI.is_dir(), reason="no real photographs beside the repository")
def test_agrees_with_karpathys_tokens():
    records = json.loads((MINI / "dataset_flickr8k.json").read_text())["images"]
    sentences = [sentence for record in records for sentence in record["sentences"]]
    equal = sum(tokenise(sentence["raw"]) == sentence["tokens"] for sentence in sentences)
    assert len(sentences) == 5000
    assert equal / len(sentences) > 0.999
    for sentence in sentences:
        assert tokenise(sentence["raw"]) == ENGLISH.findall(sentence["raw"].lower())
