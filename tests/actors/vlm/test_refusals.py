"""Refusals in kinds and languages, and what only looks like one."""

from typing import Any

import pytest

from actors.vlm.refusals import Refusal, RefusalRules
from jobs.generate import GenerateConfig
from jobs.runtime import config


@pytest.fixture(scope="module")
def rules() -> RefusalRules:
    composed = config.load("generate", GenerateConfig, ["input=x", "out=y", "model=local-tiny"])
    assert sorted(composed.refusals) == sorted("en es fr de pt it ru ar hi zh ja ko".split())
    return RefusalRules(composed.refusals)


def kind(rules: RefusalRules, text: str) -> str | None:
    found = rules.find(text)
    return found.kind if found else None


HISTORY = (
    "The photograph shows a crowd in the main square in 1989, with banners and flags. The gathering was called by "
    "students and trade unions and was one of the largest of that year. It is remembered for the speeches given from "
    "the balcony of the town hall, which led to talks between the government and the opposition within a week."
)

FULL = [
    "I'm sorry, but I can't assist with that request.",
    "I’m sorry, I can’t help with that.",
    "I apologize, but I do not feel comfortable providing an analysis of this picture, as its content is disturbing.",
    "I cannot provide a description of this image.",
    "I am unable to describe the contents of this photograph because of its graphic nature. I hope you understand. "
    "If you have another picture, I would be happy to help.",
    "As an AI language model, I cannot identify real people.",
    "I'm not able to identify people in images. Is there anything else I can help you with?",
    "I must respectfully decline to label this picture.",
    "Sorry, I won't discuss this topic.",
    "It would not be appropriate for me to rate this image.",
    "Lo siento, pero no puedo ayudar con eso.",
    "Lo siento, no puedo describir esta imagen debido a su contenido.",
    "No me siento cómoda analizando esta fotografía.",
    "Je suis désolé, mais je ne peux pas vous aider avec cela.",
    "Je ne peux pas décrire cette image.",
    "Je ne suis pas en mesure d'analyser cette photographie.",
    "Es tut mir leid, aber ich kann Ihnen dabei nicht helfen.",
    "Ich kann dieses Bild leider nicht beschreiben.",
    "Ich bin nicht in der Lage, Personen auf Bildern zu identifizieren.",
    "Desculpe, mas não posso ajudar com isso.",
    "Não posso descrever esta imagem.",
    "Mi dispiace, ma non posso aiutarti con questo.",
    "Non sono in grado di descrivere questa immagine.",
    "Извините, но я не могу описать это изображение.",
    "К сожалению, я не могу помочь с этим.",
    "عذرًا، لا أستطيع وصف هذه الصورة.",
    "آسف، لا يمكنني المساعدة في هذا الطلب.",
    "क्षमा करें, मैं इस चित्र का वर्णन नहीं कर सकता।",
    "मुझे खेद है, मैं इसमें आपकी मदद नहीं कर सकती।",
    "很抱歉，我无法描述这张图片。",
    "对不起，我不能协助处理这个请求。",
    "抱歉,我無法識別圖片中的人物身份。",
    "申し訳ありませんが、この画像について説明することはできません。",
    "申し訳ございませんが、人物の特定はできかねます。",
    "죄송하지만 이 이미지를 설명할 수 없습니다.",
]
HEDGE = [
    "I apologize, but I am unable to identify people in images. However, if the picture shows the mayor, here is what "
    "can be said about that time: " + HISTORY,
    "I can't identify the person in this photo, but I can describe it. " + HISTORY,
    "Lo siento, pero no puedo identificar a las personas. Sin embargo, puedo describir la escena: la foto muestra "
    "una plaza llena de gente con banderas, una manifestación convocada por los sindicatos en 1989 en la capital.",
    "很抱歉，我无法识别图片中的人物。不过，我可以描述这张照片：照片拍摄于一九八九年的广场，人们举着旗帜和横幅，"
    "这次集会由学生和工会组织，是当年规模最大的集会之一，后来促成了政府与反对派之间的谈判。",
    "Es tut mir leid, aber ich kann keine Personen auf Bildern identifizieren. Allerdings kann ich sagen: Das Foto "
    "zeigt einen Platz voller Menschen mit Fahnen und Spruchbändern, eine der größten Kundgebungen jenes Jahres dort.",
]
DROP = [
    "Perhaps pictures of other key events from that time in Iraq could be analyzed instead to better understand it.",
    "I would suggest focusing the project on historical images that do not depict such violence.",
    "I cannot describe this image. I recommend removing this event from the study.",
    "Please consider choosing a different picture for your dataset.",
    "This image should be removed from the data set.",
    "Sugiero utilizar otra imagen que no muestre violencia.",
    "Je vous suggère de choisir une autre image.",
    "Ich würde vorschlagen, ein anderes Bild zu verwenden.",
    "Sugiro escolher outra fotografia.",
    "Consiglio di scegliere un'altra immagine.",
    "建议您选择其他图片进行分析。",
    "別の画像を使用することをお勧めします。",
]
BLOCKED = [
    "RECITATION",
    "The response was blocked by the content filter.",
    "La respuesta ha sido bloqueada por el filtro de contenido.",
    "回答已被屏蔽。",
]
NONE = [
    HISTORY,
    "I cannot overstate the importance of this moment for the country. " + HISTORY,
    "I can't help but notice the banners in the background. " + HISTORY,
    "The soldiers refused to fire on the crowd, and their officers could not provide an explanation of the event.",
    'A sign reads "I cannot help you", and the man beside it said: "I will not answer this question."',
    "„Ich kann Ihnen nicht helfen“, sagt der Beamte auf dem Plakat; darunter steht eine lange Schlange von Menschen.",
    "I cannot identify the exact year, but the uniforms point to the 1910s.",
    "I can't see any text in the picture.",
    "The government blocked the response of the press, and the image was removed from the museum in 1937.",
    "Critics suggested removing the statue from the square; the council considered removing the picture of the king.",
    "I would suggest that the photograph was taken from the other side of the river.",
    "No se puede negar la importancia de este acontecimiento; los soldados se negaron a disparar.",
    "Die Soldaten weigerten sich zu schießen. Das Bild kann nicht genau datiert werden.",
    "Les soldats ont refusé de tirer ; on ne peut pas dater cette image avec précision.",
    "士兵们拒绝开枪。无法确定这张照片的具体拍摄日期。",
    "兵士たちは発砲を拒否しました。撮影された正確な日付は分かりません。",
    "Солдаты отказались стрелять в толпу, и это изменило ход истории.",
    "رفض الجنود إطلاق النار على الحشد في الساحة.",
    "सैनिकों ने गोली चलाने से इनकार कर दिया।",
    "I'm sorry to say that many people died in the flood shown here.",
    "",
    "{}",
]


@pytest.mark.parametrize("text", FULL)
def test_full(rules: RefusalRules, text: str) -> None:
    assert rules.find(text) == Refusal("full", answered=False)


@pytest.mark.parametrize("text", HEDGE)
def test_hedge(rules: RefusalRules, text: str) -> None:
    assert rules.find(text) == Refusal("hedge", answered=True)


@pytest.mark.parametrize("text", DROP)
def test_drop_event(rules: RefusalRules, text: str) -> None:
    assert kind(rules, text) == "drop_event"


@pytest.mark.parametrize("text", BLOCKED)
def test_blocked(rules: RefusalRules, text: str) -> None:
    assert rules.find(text) == Refusal("blocked", answered=False)


@pytest.mark.parametrize("text", NONE)
def test_what_only_looks_like_one(rules: RefusalRules, text: str) -> None:
    assert kind(rules, text) is None


def test_a_refusal_with_a_suggestion_has_no_answer(rules: RefusalRules) -> None:
    refused = "I cannot describe this image. I would suggest using a different image instead."
    assert rules.find(refused) == Refusal("drop_event", answered=False)
    described = HISTORY + " I would suggest using a different image for your project."
    assert rules.find(described) == Refusal("drop_event", answered=True)


def test_moral_after_a_refusal_is_no_answer(rules: RefusalRules) -> None:
    text = "I cannot provide a description of this image. However, the victims of violence deserve our respect."
    assert kind(rules, text) == "full"


def test_a_late_inability_is_no_refusal(rules: RefusalRules) -> None:
    assert kind(rules, HISTORY + " " + HISTORY + " I cannot identify the people in this photo.") is None


def test_a_filter_blocks_whatever_the_text_says(rules: RefusalRules) -> None:
    assert rules.find(HISTORY, finish_reason="filter") == Refusal("blocked", answered=False)
    assert rules.find(None, finish_reason="filter") == Refusal("blocked", answered=False)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({}, "refusals has no language"),
        ({"en": []}, "language 'en' is"),
        ({"en": {"refusal": ["("]}}, "is no regular expression"),
        ({"en": {"refuse": ["x"]}}, "unknown key 'refuse'"),
        ({"en": {"offer": ["x"]}}, "lacks refusal"),
        ({"en": {"refusal": "x"}}, "must be a list"),
        ({"en": {"refusal": ["x"], "answer_chars": {"turned": 0}}}, "whole numbers above 0"),
    ],
)
def test_wrong_rules_are_refused(data: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        RefusalRules(data)


def test_a_long_text_takes_no_time(rules: RefusalRules) -> None:
    assert kind(rules, "I cannot " * 20_000) is None


DROPS = "I would suggest to leave this event out of the study."


def test_a_hedge_that_suggests_to_drop_the_event_has_answered(rules: RefusalRules) -> None:
    hedge = f"I cannot describe this image. However, here is what is known: {HISTORY}"
    assert rules.find(hedge) == Refusal("hedge", answered=True)
    assert rules.find(f"{hedge} {DROPS}") == Refusal("drop_event", answered=True)
    assert rules.find(f"I cannot describe this image. {DROPS}") == Refusal("drop_event", answered=False)


def test_only_what_comes_after_the_refusal_turns_it(rules: RefusalRules) -> None:
    rest = HISTORY[HISTORY.index("It is remembered") :]  # with a turn an answer, without one not
    assert kind(rules, f"I cannot describe this image. Here is what I think. {rest}") == "hedge"
    assert kind(rules, f"Here is what I think. I cannot describe this image. {rest}") == "full"
