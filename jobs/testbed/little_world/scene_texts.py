"""Texts about scenes: titles and articles, captions in twelve languages, descriptions and commentaries.

An article is an encyclopaedia's text about the event that a picture belongs to, and says nothing about the picture.
Captions are made from our own templates: lists of words, which need no inflection. Descriptions are true, or have
planted mistakes and omissions in known places; commentaries are descriptions with historical background, like those by
Century's writers, with planted merits and faults.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from jobs.testbed.little_world.scenes import (
    COLOURS,
    COUNTRIES,
    COUNTS,
    MEMORIES,
    OPINIONS,
    SHAPES,
    SIDES,
    STYLES,
    VISIBLE,
    Scene,
)


def title(scene: Scene) -> str:
    """Return the title of the page, which contains the event, a search term."""
    return f"{scene.event} of {scene.country_name}, {scene.year}"


def article(scene: Scene) -> str:
    """Return the article: its country, event and year, what people think of it, and how they remember it."""
    return (
        f"The {scene.event} of {scene.country_name} began in {scene.year}. "
        f"Opinions about it are {OPINIONS[scene.opinion - 1]}. "
        f"People remember it {MEMORIES[scene.memory - 1]}."
    )


class Language(NamedTuple):
    """The words of a language, in the order of `scenes`, and how a caption joins them."""

    shapes: tuple[str, ...]
    colours: tuple[str, ...]
    counts: tuple[str, ...]
    sides: tuple[str, ...]
    styles: tuple[str, ...]


def _split(text: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in text.split())


def _language(shapes: str, colours: str, counts: str, sides: str, styles: str) -> Language:
    return Language(*map(_split, (shapes, colours, counts, sides, styles)))


# Shapes: circle heart square cross star triangle. Colours: red blue green yellow purple orange black white.
# Styles: shaded brushed ruled gridded plain.
LANGUAGES = {
    "en": _language("circle heart square cross star triangle", "red blue green yellow purple orange black white",
                    "one two three four five", "left right", "shaded brushed ruled gridded plain"),
    "de": _language("Kreis Herz Quadrat Kreuz Stern Dreieck", "rot blau grün gelb violett orange schwarz weiß",
                    "eins zwei drei vier fünf", "links rechts", "schattiert gepinselt liniert kariert einfarbig"),
    "fr": _language("cercle cœur carré croix étoile triangle", "rouge bleu vert jaune violet orange noir blanc",
                    "un deux trois quatre cinq", "à_gauche à_droite", "ombré brossé ligné quadrillé uni"),
    "es": _language("círculo corazón cuadrado cruz estrella triángulo",
                    "rojo azul verde amarillo morado naranja negro blanco", "uno dos tres cuatro cinco",
                    "izquierda derecha", "sombreado pincelado rayado cuadriculado liso"),
    "pt": _language("círculo coração quadrado cruz estrela triângulo",
                    "vermelho azul verde amarelo roxo laranja preto branco", "um dois três quatro cinco",
                    "esquerda direita", "sombreado pincelado pautado quadriculado liso"),
    "pl": _language("koło serce kwadrat krzyż gwiazda trójkąt",
                    "czerwony niebieski zielony żółty fioletowy pomarańczowy czarny biały",
                    "jeden dwa trzy cztery pięć", "lewo prawo", "cieniowany malowany liniowany kratkowany gładki"),
    "tr": _language("daire kalp kare haç yıldız üçgen", "kırmızı mavi yeşil sarı mor turuncu siyah beyaz",
                    "bir iki üç dört beş", "sol sağ", "gölgeli fırçalı çizgili kareli düz"),
    "id": _language("lingkaran hati persegi salib bintang segitiga", "merah biru hijau kuning ungu oranye hitam putih",
                    "satu dua tiga empat lima", "kiri kanan", "berbayang kuas bergaris kotak-kotak polos"),
    "sw": _language("duara moyo mraba msalaba nyota pembetatu",
                    "nyekundu buluu kijani njano zambarau machungwa nyeusi nyeupe", "moja mbili tatu nne tano",
                    "kushoto kulia", "kivuli brashi mistari gridi tupu"),
    "ru": _language("круг сердце квадрат крест звезда треугольник",
                    "красный синий зелёный жёлтый фиолетовый оранжевый чёрный белый", "один два три четыре пять",
                    "слева справа", "затенённый мазками в_линейку в_клетку гладкий"),
    "ar": _language("دائرة قلب مربع صليب نجمة مثلث", "أحمر أزرق أخضر أصفر بنفسجي برتقالي أسود أبيض",
                    "واحد اثنان ثلاثة أربعة خمسة", "يسار يمين", "مظلل مرسوم مسطر شبكي سادة"),
    "ja": _language("丸 ハート 四角 十字 星 三角", "赤 青 緑 黄色 紫 オレンジ 黒 白", "一 二 三 四 五", "左 右",
                    "陰影 筆 罫線 方眼 無地"),
}  # fmt: skip


def caption_words(scene: Scene, language: str) -> dict[str, str]:
    """Return a language's word for each visible fact; countries have the same name in all languages."""
    terms = LANGUAGES[language]
    return {
        "shape": terms.shapes[SHAPES.index(scene.shape)],
        "colour": terms.colours[list(COLOURS).index(scene.colour)],
        "count": terms.counts[scene.count - 1],
        "side": terms.sides[SIDES.index(scene.side)],
        "style": terms.styles[STYLES.index(scene.style)],
        "country_name": scene.country_name,
    }


def caption(scene: Scene, language: str, *, facts: Sequence[str] = VISIBLE) -> str:
    """Return a caption that states `facts`, such as "star, red, three, left, ruled, Velmara."."""
    named = caption_words(scene, language)
    return ", ".join(named[fact] for fact in VISIBLE if fact in facts) + "."


def matches(one: Scene, other: Scene, facts: Sequence[str]) -> bool:
    """Return whether a caption of `one` with `facts` is also true of `other`."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in facts)


NUMBERS = ("one", "two", "three", "four", "five")
STATED = ("count", "colour", "shape", "side", "style", "country_name")  # in the order of the sentence
OPTIONAL = ("side", "style", "country_name")  # those that a description may omit
VALUES: dict[str, Sequence[Any]] = {
    "count": COUNTS,
    "colour": tuple(COLOURS),
    "shape": SHAPES,
    "side": SIDES,
    "style": STYLES,
    "country_name": tuple(country.name for country in COUNTRIES),
}
NO_PICTURE = "I cannot see any picture."  # a refusal by the rules of `conf/refusals/`


class Planted(NamedTuple):
    """A description, the facts that it gets wrong, and the facts of the true one that it omits."""

    text: str
    wrong: tuple[str, ...]
    omitted: tuple[str, ...]
    described: Scene  # the scene of which it would be true


def description(scene: Scene, *, omitted: Sequence[str] = ()) -> str:
    """Return one sentence about what can be seen: "three red star on the left side, …"."""
    return ", ".join(
        part
        for part in (
            f"{stated_words(scene, 'count')} {scene.colour} {scene.shape}",
            "" if "side" in omitted else f"on the {scene.side} side",
            "" if "style" in omitted else f"on {scene.style} ground",
            "" if "country_name" in omitted else f"under the flag of {scene.country_name}",
        )
        if part
    )


def stated_words(scene: Scene, fact: str) -> str:
    """Return the words that state a fact in a description."""
    return NUMBERS[scene.count - 1] if fact == "count" else str(getattr(scene, fact))


def changed(scene: Scene, facts: Sequence[str], draw: random.Random) -> Scene:
    """Return the scene with other values of `facts`."""
    others = {fact: draw.choice([value for value in VALUES[fact] if value != getattr(scene, fact)]) for fact in facts}
    return replace(scene, **others)


def planted(scene: Scene, *, seed: int, omissions: Sequence[int] = (0, 0, 1)) -> Planted:
    """Return a description with none to two mistakes and none or one omission.

    Args:
        omissions: numbers of omissions to draw from.
    """
    draw = random.Random(f"planted {seed} {scene.number}")
    wrong = tuple(fact for fact in STATED if fact in draw.sample(STATED, draw.choice((0, 1, 1, 2))))
    others = [fact for fact in OPTIONAL if fact not in wrong]
    omitted = tuple(draw.sample(others, min(len(others), draw.choice(omissions))))
    described = changed(scene, wrong, draw)
    return Planted(description(described, omitted=omitted), wrong, omitted, described)


def places(text: str, described: Scene, facts: Sequence[str]) -> Iterator[tuple[int, int]]:
    """Yield the beginning and end of the words for `facts` in a description of the scene `described`."""
    for fact in facts:
        stated = stated_words(described, fact)
        begin = text.index(stated)
        yield begin, begin + len(stated)


LOADED = ("What a glorious day.", "What a shameful day.")
VERDICTS = ("It was right.", "It was wrong.")


class Commentary(NamedTuple):
    """A description, the facts that it gets wrong or omits, and what it says about the event."""

    text: str
    wrong: tuple[str, ...] = ()
    omitted: tuple[str, ...] = ()
    has_background: bool = False
    is_loaded: bool = False
    has_opinion: bool = False


def background(scene: Scene) -> str:
    """Return the article's sentence on what happened where and when."""
    return article(scene).partition(". ")[0] + "."


def commentary(scene: Scene, draw: random.Random) -> Commentary:
    """Return a description of a scene with up to two wrong facts, up to two omissions, and additional sentences."""
    wrong = tuple(draw.sample(STATED, draw.choice((0, 0, 1, 1, 2))))
    others = [fact for fact in OPTIONAL if fact not in wrong]
    omitted = tuple(draw.sample(others, min(len(others), draw.choice((0, 0, 1, 2)))))
    described = changed(scene, wrong, draw)
    has_background, is_loaded, has_opinion = (draw.random() < share for share in (0.5, 0.35, 0.35))
    sentences = [
        description(described, omitted=omitted) + ".",
        background(scene) if has_background else "",
        draw.choice(LOADED) if is_loaded else "",
        draw.choice(VERDICTS) if has_opinion else "",
    ]
    text = " ".join(sentence for sentence in sentences if sentence)
    return Commentary(text, wrong, omitted, has_background, is_loaded, has_opinion)
