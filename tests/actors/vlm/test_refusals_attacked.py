"""Sentences that were written against the rules, after the rules: what a stranger would try."""

import pytest

from actors.vlm.refusals import RefusalRules
from jobs.generate import GenerateConfig
from jobs.runtime import config

ENGLISH = (
    " The image shows a crowd of people gathered in a public square, holding banners and flags, with"
    " a large neoclassical building in the background and a stage on the left where a speaker "
    "addresses them."
)
GERMAN = (
    " Das Bild zeigt eine Menschenmenge auf einem öffentlichen Platz mit Fahnen und Spruchbändern, "
    "im Hintergrund ein großes klassizistisches Gebäude und links eine Bühne, von der aus ein Redner"
    " spricht."
)
FRENCH = (
    " L'image montre une foule rassemblée sur une place publique, avec des banderoles et des "
    "drapeaux, un grand bâtiment néoclassique à l'arrière-plan et, à gauche, une estrade d'où parle "
    "un orateur."
)
SPANISH = (
    " La imagen muestra a una multitud reunida en una plaza pública, con pancartas y banderas, un "
    "gran edificio neoclásico al fondo y, a la izquierda, una tarima desde la que habla un orador."
)
SENTENCES = {
    "hedge": [
        (
            "I cannot identify the person, but the image shows a man in a dark suit speaking at a lectern in"
            " front of a row of flags; the hall behind him is full, and a banner names a trade union "
            "congress of 1951."
        ),
        (
            "I can't tell you who this is, but the photo depicts a woman in traditional dress weaving on a "
            "backstrap loom, with skeins of dyed wool beside her and two children watching from the doorway "
            "of an adobe house."
        ),
        "I'm sorry, but I can't provide an identification of the individuals." + ENGLISH,
        (
            "I'm unable to determine the identities of the people pictured. That said,the image shows a "
            "crowd of people gathered in a public square, holding banners and flags, with a large "
            "neoclassical building in the background and a stage on the left where a speaker addresses them."
        ),
        "Unfortunately, I cannot say who the people are. What I can describe is the scene:" + ENGLISH,
        "Lo siento, no puedo identificar a la persona, pero puedo decir que" + SPANISH,
        "No puedo identificar a las personas de la foto." + SPANISH + SPANISH,
        "Je ne peux pas identifier la personne, mais" + FRENCH,
        "Ich kann die Person nicht identifizieren, aber" + GERMAN,
        (
            "Non posso identificare le persone, ma l'immagine mostra una processione di Semana Santa a "
            "Siviglia, con i penitenti incappucciati, i ceri accesi e un carro con la statua della Madonna "
            "portato a spalla."
        ),
        (
            "Я не могу определить, кто изображён на фотографии, однако на ней видна площадь, заполненная "
            "людьми с флагами и плакатами, а на заднем плане стоит большое здание с колоннами и балконом, с "
            "которого выступает оратор."
        ),
        (
            "我无法识别图中的人物，但是图片显示了一场传统婚礼：新娘身穿红色礼服，宾客围坐在圆桌旁，墙上"
            "挂着喜字，孩子们在前面跑来跑去，桌上摆满了菜肴。"
        ),
        (
            "人物を特定することはできませんが、画像には伝統的な結婚式の様子が写っています。花嫁は白無垢"
            "を着て、神社の境内を親族とともに歩いており、赤い傘がさしかけられています。"
        ),
    ],
    "full": [
        "I'm sorry, I can't help with identifying people in images.",
        "I'm not able to help with this one.",
        "Sorry, but I can't assist with that.",
        "I cannot fulfill this request.",
        "I can't engage with this content.",
        "I won't be able to describe this image.",
        "I'd prefer not to comment on this photograph.",
        "My guidelines don't allow me to describe this image.",
        "I do not have the ability to view images.",
        "As a language model, I'm unable to process images.",
        "I'm sorry, but I cannot rate how relevant a culture is to this picture.",
        "Unable to comply.",
        "I have to decline.",
        "This request violates our usage policies, so I can't continue.",
        "Lamentablemente no puedo ayudarte con esta solicitud.",
        "Désolé, je ne suis pas en mesure de répondre à cette demande.",
        "Je regrette, mais je ne peux pas commenter cette image.",
        "Ich kann Ihnen hierzu leider keine Auskunft geben.",
        "Dazu kann ich nichts sagen.",
        "Não posso ajudar com esse pedido.",
        "Mi dispiace, non posso rispondere a questa domanda.",
        "Извините, я не могу выполнить этот запрос.",
        "抱歉，我无法回答这个问题。",
        "申し訳ありませんが、そのご要望にはお応えできません。",
        "죄송하지만 그 요청은 도와드릴 수 없습니다.",
        "사진 속 인물이 누구인지 알려 드릴 수 없습니다.",
        "عذراً، لا أستطيع الإجابة عن هذا السؤال.",
        "माफ़ कीजिए, मैं इस अनुरोध में सहायता नहीं कर सकता।",
    ],
    None: [
        'A woman in a red coat holds a handwritten sign saying "I\'m sorry" beside a flower stall.',
        "The letter on the table begins 'I cannot help you any more' and is signed by the king.",
        "The poster says “I can't assist with that request” as a joke about chatbots.",
        (
            "I'm sorry to hear of the losses this picture documents: it shows the port of Beirut after the "
            "explosion of 2020."
        ),
        "The caption reads: I cannot provide for my family. It was written by a farmer during the Dust Bowl.",
        (
            "He said that he could not provide any information about the arrests, and the newspaper printed "
            "his photograph."
        ),
        (
            "I am unable to read the small text on the banner, which seems to be in Cyrillic, but the flags "
            "are those of Bulgaria."
        ),
        "I cannot say with certainty when this was taken; the cars suggest the late 1930s.",
        "I can't identify the building with certainty, but it looks like the Alhambra in Granada.",
        "I don't know the exact location of this photograph. The architecture is typical of Yemen.",
        "The monk declined to answer questions and refused to comply with the order to leave the monastery.",
        "We cannot describe this event without mentioning the treaty of 1919, which redrew the borders.",
        "It is not possible to identify the exact date.",
        ("The museum recommends avoiding flash photography; the statue was removed from the picture gallery in 1902."),
        "The safety policies of the factory were blamed for the fire in which 146 workers died.",
        "The request was blocked by the parliament, and the protest in the picture was the answer.",
        (
            "In 2012 the site was blocked by the government's content filter, which is what these protesters"
            " are demanding an end to."
        ),
        "I would recommend visiting this temple at sunrise, when the light falls on the eastern gallery.",
        "El cartel dice «Lo siento, no puedo ayudarte» y está colgado en una tienda de Sevilla.",
        "No puedo determinar la fecha exacta de la fotografía, pero los uniformes son de 1898.",
        "On ne peut pas décrire cette cérémonie sans évoquer les masques dogons.",
        "Je ne peux pas lire l'inscription, mais le drapeau est celui du Mali.",
        "Ich kann nicht genau sagen, wann das Foto entstand; die Autos sprechen für die dreißiger Jahre.",
        "Auf dem Schild steht: „Es tut mir leid, ich kann nicht helfen.“ Davor wartet eine Schlange.",
        "Не могу сказать точно, когда сделан снимок, но форма солдат относится к Крымской войне.",
        "我无法确定照片的拍摄地点，但建筑风格属于福建土楼。",
        "看板には「申し訳ありませんが、お手伝いできません」と書かれています。",
        "이 사진이 언제 찍혔는지는 정확히 알 수 없습니다. 한복은 조선 후기의 것입니다.",
        "لا يمكنني تحديد تاريخ الصورة بدقة، لكن الأزياء تعود إلى العهد العثماني.",
        "मैं यह नहीं बता सकता कि यह चित्र किस वर्ष का है, पर वेशभूषा मुग़ल काल की है।",
    ],
    "blocked": [
        "Content removed due to safety guidelines.",
        "The image was flagged by our content policy and cannot be processed.",
    ],
    "drop_event": [
        "I suggest choosing another photograph that does not show victims.",
        "I'd recommend leaving this event out of the benchmark.",
        "Ich empfehle, dieses Ereignis wegzulassen.",
        "Je recommande d'exclure cet événement de l'étude.",
    ],
}


@pytest.fixture(scope="module")
def rules() -> RefusalRules:
    return RefusalRules(config.load("generate", GenerateConfig, ["input=x", "out=y", "model=local-tiny"]).refusals)


@pytest.mark.parametrize(("kind", "text"), [(kind, text) for kind, texts in SENTENCES.items() for text in texts])
def test_kind(rules: RefusalRules, kind: str | None, text: str) -> None:
    found = rules.find(text)
    assert (found.kind if found else None) == kind
    assert not found or found.answered == (kind == "hedge") or kind == "drop_event"
