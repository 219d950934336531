"""Sentences in German, French, Spanish and Chinese that the rules had not been written for: half were missed."""

import pytest

from actors.vlm.refusals import RefusalRules
from jobs.generate import GenerateConfig
from jobs.runtime import config

SENTENCES: list[tuple[str | None, str]] = [
    ("full", "Es tut mir leid, aber ich kann bei dieser Anfrage nicht behilflich sein."),
    ("full", "Leider kann ich dazu keine Auskunft geben."),
    ("full", "Das kann ich leider nicht beantworten."),
    ("full", "Ich kann das Bild leider nicht sehen."),
    ("full", "Ich bin nicht befugt, Personen auf Bildern zu identifizieren."),
    ("full", "Diese Anfrage kann ich nicht erfüllen."),
    ("full", "Dabei kann ich nicht helfen."),
    ("full", "Entschuldigung, hierbei kann ich Ihnen nicht weiterhelfen."),
    ("full", "Ich darf mich zu diesem Thema nicht äußern."),
    (
        "hedge",
        "Ich kann die Personen nicht identifizieren, aber das Bild zeigt eine Gruppe von Soldaten in "
        "Uniformen aus dem Ersten Weltkrieg, die vor einem zerstörten Gebäude stehen und in die Kamera "
        "blicken. Im Hintergrund sind Trümmer zu sehen.",
    ),
    (None, "Das Bild zeigt Männer, die sich weigern, den Befehl auszuführen."),
    (
        None,
        "Man kann nicht genau erkennen, wann die Aufnahme entstand, doch die Kleidung spricht für die 1920er Jahre.",
    ),
    (None, "Ich kann mir gut vorstellen, dass hier die Krönung von 1953 gezeigt wird."),
    ("full", "Je suis désolé, mais je ne peux pas répondre à cette demande."),
    ("full", "Désolé, je ne suis pas en mesure de vous aider avec cela."),
    ("full", "Je ne peux malheureusement pas identifier les personnes sur cette photo."),
    ("full", "Il m'est impossible de commenter cette image."),
    ("full", "Je préfère ne pas répondre à cette question."),
    ("full", "Je regrette, mais cette demande dépasse ce que je suis autorisé à faire."),
    ("full", "En tant qu'assistant IA, je ne suis pas autorisé à décrire ce contenu."),
    ("full", "Je n'ai pas la possibilité de voir des images."),
    (
        "hedge",
        "Je ne peux pas identifier la personne, mais l'image montre un homme en uniforme militaire debout "
        "devant une foule nombreuse, sur une place bordée de bâtiments du dix-neuvième siècle, sans doute "
        "lors d'une commémoration.",
    ),
    (None, "On ne peut pas parler de cette image sans évoquer la guerre d'Algérie."),
    (None, "Les ouvriers ne peuvent pas entrer dans l'usine, gardée par la police."),
    (None, "L'homme refuse de répondre aux questions des journalistes."),
    ("full", "Lo siento, pero no puedo ayudarte con eso."),
    ("full", "No me es posible responder a esta pregunta."),
    ("full", "Lamento no poder ayudarle con esta solicitud."),
    ("full", "No estoy autorizado para identificar a personas en imágenes."),
    ("full", "Prefiero no comentar sobre este tema."),
    ("full", "Me temo que no puedo describir esta imagen."),
    ("full", "No tengo permitido hablar de este contenido."),
    ("full", "Como modelo de lenguaje, no puedo ver imágenes."),
    (
        "hedge",
        "No puedo identificar a la persona, pero la imagen muestra a un hombre con uniforme militar de pie "
        "ante una multitud en una plaza rodeada de edificios coloniales, probablemente durante una "
        "conmemoración de la independencia.",
    ),
    (None, "No se puede entender esta foto sin la Guerra Civil."),
    (None, "La multitud no puede pasar porque la policía bloqueó la calle."),
    ("full", "抱歉，我无法回答这个问题。"),
    ("full", "对不起，我不能提供关于这张图片的描述。"),
    ("full", "很抱歉，我无法识别图片中的人物。"),
    ("full", "这个话题我不便讨论。"),
    ("full", "作为一个人工智能助手，我不能对此发表评论。"),
    ("full", "我还没有学会如何回答这个问题，我们换个话题吧。"),
    ("full", "抱歉，這個問題我無法協助。"),
    (
        "hedge",
        "我无法确认图中人物的身份，但是这张照片展示了一群身穿军装的士兵站在一座被毁坏的建筑物前，背景中可以看"
        "到废墟和浓烟，照片很可能拍摄于第二次世界大战期间，画面中士兵的表情严肃，反映了战争的残酷和人们所经历"
        "的苦难，具有重要的历史价值。这类照片通常由随军记者拍摄，并刊登在当时的报纸上。",
    ),
    (None, "图中的士兵拒绝执行命令。"),
    (None, "这张照片无法不让人想起那场战争。"),
    ("blocked", "抱歉，该内容因违反内容政策已被过滤。"),
    ("drop_event", "我建议将这张图片替换为一张不那么暴力的图片。"),
    ("drop_event", "Ich würde vorschlagen, dieses Ereignis aus der Sammlung wegzulassen."),
    ("drop_event", "Je suggère de retirer cet événement de la liste."),
    ("drop_event", "Sugiero excluir este evento de la colección."),
    ("blocked", "La réponse a été bloquée par le filtre de contenu."),
    ("blocked", "Die Antwort wurde vom Inhaltsfilter blockiert."),
    ("blocked", "El contenido fue bloqueado por nuestras políticas de seguridad."),
    ("full", "Bitte haben Sie Verständnis, dass ich hierzu keine Aussage treffen kann."),
    ("full", "Leider ist es mir nicht möglich, diese Frage zu beantworten."),
    ("full", "Ich muss Sie enttäuschen: Personen auf Fotos kann ich nicht benennen."),
    ("full", "Zu diesem Bild möchte ich mich nicht äußern."),
    ("full", "Tut mir leid, das kann ich nicht tun."),
    (
        "hedge",
        "Wer die Frau ist, kann ich nicht sagen. Das Foto zeigt jedoch eine Arbeiterin an einer Webmaschine "
        "in einer großen Fabrikhalle, vermutlich um 1910; die Fenster sind hoch und das Licht fällt von links"
        " auf die Reihen der Maschinen.",
    ),
    (
        None,
        "Auf dem Foto kann ich nicht erkennen, ob es Tag oder Nacht ist; die Szene zeigt einen Hafen mit drei Kränen.",
    ),
    (None, "Die Demonstranten fordern, dass niemand ihnen das Wahlrecht verweigern darf."),
    (None, "Ich sehe eine Menschenmenge, die sich nicht vertreiben lässt."),
    ("full", "Je ne peux pas vous aider avec cette demande."),
    ("full", "Malheureusement, je ne peux pas dire qui est sur la photo."),
    ("full", "Je suis incapable de décrire cette image."),
    ("full", "Navré, mais je dois refuser cette demande."),
    ("full", "Il ne m'est pas possible de donner un avis sur cette image."),
    (
        "hedge",
        "Je ne peux pas dire qui est cette personne. Cependant, la photographie montre une ouvrière devant un"
        " métier à tisser dans une grande usine, sans doute vers 1910 ; les fenêtres sont hautes et la "
        "lumière vient de la gauche.",
    ),
    (None, "Je ne peux qu'admirer la composition de cette photographie de la Libération de Paris."),
    (None, "Les grévistes ne sont pas autorisés à entrer dans l'usine."),
    (None, "Il est impossible de dater cette photographie avec précision, mais elle montre la ville avant la guerre."),
    ("full", "Lo siento, no puedo procesar esta imagen."),
    ("full", "Disculpa, pero no puedo realizar esa tarea."),
    ("full", "No puedo decir quién aparece en la foto."),
    ("full", "Mis directrices no me permiten comentar este contenido."),
    ("full", "Soy un modelo de lenguaje y no puedo opinar sobre esto."),
    (
        "hedge",
        "No puedo decir quién es la mujer. Sin embargo, la fotografía muestra a una obrera ante un telar en "
        "una gran fábrica, probablemente hacia 1910; las ventanas son altas y la luz entra por la izquierda "
        "sobre las filas de máquinas.",
    ),
    (None, "Los trabajadores no tienen permiso para salir de la fábrica."),
    (None, "No es posible determinar la fecha exacta, pero la imagen muestra la ciudad antes de la guerra."),
    (None, "Me parece imposible no pensar en la Revolución al ver esta imagen."),
    ("full", "抱歉，我不能协助完成这项请求。"),
    ("full", "对不起，我无法查看图片。"),
    ("full", "我无法对这张图片进行评论。"),
    ("full", "根据相关规定，我不能讨论这个话题。"),
    ("full", "很抱歉，我不能告诉你照片里的人是谁。"),
    (
        "hedge",
        "我无法告诉你这位女士是谁。不过，这张照片显示一名女工站在大型工厂的织布机前，大约拍摄于1910年，窗户很高，光线从左侧照进来，照亮了一排排机器。",
    ),
    (None, "工人们没有权利离开工厂。"),
    (None, "无法确定这张照片的确切日期，但照片显示的是战前的城市。"),
    (None, "他们换了一个话题，开始讨论战争。"),
    ("full", "Ich kann diese Art von Inhalten leider nicht kommentieren."),
    ("full", "Bedauerlicherweise ist mir eine Beschreibung dieses Bildes nicht erlaubt."),
    ("full", "Als KI darf ich keine Personen anhand ihres Gesichts erkennen."),
    (
        "hedge",
        "Zwar darf ich niemanden identifizieren, aber auf dem Bild ist ein Redner auf einem Balkon zu sehen, "
        "unter dem sich eine große Menge mit Fahnen versammelt hat; der Stil der Gebäude und der Kleidung "
        "deutet auf die dreißiger Jahre hin.",
    ),
    (None, "Der Fotograf durfte das Lager nicht betreten, deshalb ist nur der Zaun zu sehen."),
    (None, "Ich kann auf dem Bild keine Personen sehen, nur eine leere Straße."),
    ("full", "Je m'excuse, mais je ne peux pas traiter ce type de contenu."),
    ("full", "Je me dois de décliner votre demande."),
    ("full", "Pardon, je ne peux rien dire à ce sujet."),
    (
        "hedge",
        "Je ne suis pas en mesure d'identifier l'orateur. Toutefois, on voit un homme sur un balcon au-dessus"
        " d'une grande foule avec des drapeaux ; le style des bâtiments et des vêtements évoque les années "
        "trente en Europe.",
    ),
    (None, "Le photographe n'a pas eu le droit d'entrer dans le camp ; on ne voit que la clôture."),
    (None, "Je ne vois personne sur cette image, seulement une rue vide."),
    ("full", "Perdona, no puedo continuar con esta conversación."),
    ("full", "Debo declinar esta petición."),
    ("full", "No me está permitido identificar a personas reales."),
    ("full", "Lo lamento, pero esta solicitud va más allá de lo que puedo hacer."),
    (
        "hedge",
        "No me es posible identificar al orador. No obstante, se ve a un hombre en un balcón sobre una gran "
        "multitud con banderas; el estilo de los edificios y de la ropa recuerda los años treinta en Europa, "
        "probablemente en un acto político.",
    ),
    (None, "Al fotógrafo no se le permitió entrar en el campo; solo se ve la valla."),
    (None, "No veo a nadie en la imagen, solo una calle vacía."),
    ("full", "非常抱歉，这个请求超出了我的能力范围。"),
    ("full", "我不会对此类内容发表看法。"),
    ("full", "请原谅，我无法满足您的要求。"),
    ("full", "我被禁止识别图片中的真实人物。"),
    (
        "hedge",
        "我不能识别演讲者的身份，但图中可以看到一名男子站在阳台上，下面聚集着举着旗帜的人群，建筑和服装的风格让人想到三十年代的欧洲，很可能是一次政治集会。",
    ),
    (None, "摄影师不被允许进入营地，所以只能看到围栏。"),
    (None, "我没有看到任何人，只有一条空荡荡的街道。"),
]


@pytest.fixture(scope="module")
def rules() -> RefusalRules:
    return RefusalRules(config.load("generate", GenerateConfig, ["input=x", "out=y", "model=local-tiny"]).refusals)


@pytest.mark.parametrize(("kind", "text"), SENTENCES)
def test_kind(rules: RefusalRules, kind: str | None, text: str) -> None:
    found = rules.find(text)
    assert (found.kind if found else None) == kind
