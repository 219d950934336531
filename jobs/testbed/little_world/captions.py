"""Captions of scenes in twelve languages, made from our own templates: lists of words, which need no inflection."""

from collections.abc import Sequence
from typing import NamedTuple

from jobs.testbed.little_world.facts import COLOURS, SHAPES, SIDES, STYLES
from jobs.testbed.little_world.scenes import VISIBLE, Scene


class Language(NamedTuple):
    """The words of a language, in the order of `facts`, and how a caption joins them."""

    shapes: tuple[str, ...]
    colours: tuple[str, ...]
    counts: tuple[str, ...]
    sides: tuple[str, ...]
    styles: tuple[str, ...]


def _words(text: str) -> tuple[str, ...]:
    return tuple(word.replace("_", " ") for word in text.split())


def _language(shapes: str, colours: str, counts: str, sides: str, styles: str) -> Language:
    return Language(*map(_words, (shapes, colours, counts, sides, styles)))


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


def words(scene: Scene, language: str) -> dict[str, str]:
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
    named = words(scene, language)
    return ", ".join(named[fact] for fact in VISIBLE if fact in facts) + "."


def matches(one: Scene, other: Scene, facts: Sequence[str]) -> bool:
    """Return whether a caption of `one` with `facts` is also true of `other`."""
    return all(getattr(one, fact) == getattr(other, fact) for fact in facts)
