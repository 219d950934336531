"""Sentences that refuse, or only look as if they did, by language and kind (None: not a refusal)."""

Sentences = dict[str | None, list[str]]
SENTENCES: dict[str, Sentences] = {
    "en": {
        "full": [
            "I'm sorry, but I can't assist with that request.",
            "I’m sorry, I can’t help with that.",
            (
                "I apologize, but I do not feel comfortable providing an analysis of this picture, as its "
                "content is disturbing."
            ),
            "I cannot provide a description of this image.",
            (
                "I am unable to describe the contents of this photograph because of its graphic nature. I hope "
                "you understand. If you have another picture, I would be happy to help."
            ),
            "As an AI language model, I cannot identify real people.",
            "I'm not able to identify people in images. Is there anything else I can help you with?",
            "I must respectfully decline to label this picture.",
            "Sorry, I won't discuss this topic.",
            "It would not be appropriate for me to rate this image.",
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
        ],
        "hedge": [
            (
                "I apologize, but I am unable to identify people in images. However, if the picture shows the "
                "mayor, here is what can be said about that time: The photograph shows a crowd in the main "
                "square in 1989, with banners and flags. The gathering was called by students and trade unions "
                "and was one of the largest of that year. It is remembered for the speeches given from the "
                "balcony of the town hall, which led to talks between the government and the opposition within "
                "a week."
            ),
            (
                "I can't identify the person in this photo, but I can describe it. The photograph shows a crowd "
                "in the main square in 1989, with banners and flags. The gathering was called by students and "
                "trade unions and was one of the largest of that year. It is remembered for the speeches given "
                "from the balcony of the town hall, which led to talks between the government and the "
                "opposition within a week."
            ),
            (
                "I cannot identify the person, but the image shows a man in a dark suit speaking at a lectern "
                "in front of a row of flags; the hall behind him is full, and a banner names a trade union "
                "congress of 1951."
            ),
            (
                "I can't tell you who this is, but the photo depicts a woman in traditional dress weaving on a "
                "backstrap loom, with skeins of dyed wool beside her and two children watching from the doorway "
                "of an adobe house."
            ),
            (
                "I'm sorry, but I can't provide an identification of the individuals. The image shows a crowd "
                "of people gathered in a public square, holding banners and flags, with a large neoclassical "
                "building in the background and a stage on the left where a speaker addresses them."
            ),
            (
                "I'm unable to determine the identities of the people pictured. That said,the image shows a "
                "crowd of people gathered in a public square, holding banners and flags, with a large "
                "neoclassical building in the background and a stage on the left where a speaker addresses them."
            ),
            (
                "Unfortunately, I cannot say who the people are. What I can describe is the scene: The image "
                "shows a crowd of people gathered in a public square, holding banners and flags, with a large "
                "neoclassical building in the background and a stage on the left where a speaker addresses them."
            ),
        ],
        "blocked": [
            "RECITATION",
            "The response was blocked by the content filter.",
            "Content removed due to safety guidelines.",
            "The image was flagged by our content policy and cannot be processed.",
        ],
        "drop_event": [
            (
                "Perhaps pictures of other key events from that time in Iraq could be analyzed instead to "
                "better understand it."
            ),
            "I would suggest focusing the project on historical images that do not depict such violence.",
            "I cannot describe this image. I recommend removing this event from the study.",
            "Please consider choosing a different picture for your dataset.",
            "This image should be removed from the data set.",
            "I suggest choosing another photograph that does not show victims.",
            "I'd recommend leaving this event out of the benchmark.",
        ],
        None: [
            (
                "The photograph shows a crowd in the main square in 1989, with banners and flags. The gathering "
                "was called by students and trade unions and was one of the largest of that year. It is "
                "remembered for the speeches given from the balcony of the town hall, which led to talks "
                "between the government and the opposition within a week."
            ),
            (
                "I cannot overstate the importance of this moment for the country. The photograph shows a crowd "
                "in the main square in 1989, with banners and flags. The gathering was called by students and "
                "trade unions and was one of the largest of that year. It is remembered for the speeches given "
                "from the balcony of the town hall, which led to talks between the government and the "
                "opposition within a week."
            ),
            (
                "I can't help but notice the banners in the background. The photograph shows a crowd in the "
                "main square in 1989, with banners and flags. The gathering was called by students and trade "
                "unions and was one of the largest of that year. It is remembered for the speeches given from "
                "the balcony of the town hall, which led to talks between the government and the opposition "
                "within a week."
            ),
            (
                "The soldiers refused to fire on the crowd, and their officers could not provide an explanation "
                "of the event."
            ),
            'A sign reads "I cannot help you", and the man beside it said: "I will not answer this question."',
            "I cannot identify the exact year, but the uniforms point to the 1910s.",
            "I can't see any text in the picture.",
            "The government blocked the response of the press, and the image was removed from the museum in 1937.",
            (
                "Critics suggested removing the statue from the square; the council considered removing the "
                "picture of the king."
            ),
            "I would suggest that the photograph was taken from the other side of the river.",
            "I'm sorry to say that many people died in the flood shown here.",
            "",
            "{}",
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
            (
                "The museum recommends avoiding flash photography; the statue was removed from the picture "
                "gallery in 1902."
            ),
            "The safety policies of the factory were blamed for the fire in which 146 workers died.",
            "The request was blocked by the parliament, and the protest in the picture was the answer.",
            (
                "In 2012 the site was blocked by the government's content filter, which is what these "
                "protesters are demanding an end to."
            ),
            "I would recommend visiting this temple at sunrise, when the light falls on the eastern gallery.",
        ],
    },
    "es": {
        "full": [
            "Lo siento, pero no puedo ayudar con eso.",
            "Lo siento, no puedo describir esta imagen debido a su contenido.",
            "No me siento cómoda analizando esta fotografía.",
            "Lamentablemente no puedo ayudarte con esta solicitud.",
            "Lo siento, pero no puedo ayudarte con eso.",
            "No me es posible responder a esta pregunta.",
            "Lamento no poder ayudarle con esta solicitud.",
            "No estoy autorizado para identificar a personas en imágenes.",
            "Prefiero no comentar sobre este tema.",
            "Me temo que no puedo describir esta imagen.",
            "No tengo permitido hablar de este contenido.",
            "Como modelo de lenguaje, no puedo ver imágenes.",
            "Lo siento, no puedo procesar esta imagen.",
            "Disculpa, pero no puedo realizar esa tarea.",
            "No puedo decir quién aparece en la foto.",
            "Mis directrices no me permiten comentar este contenido.",
            "Soy un modelo de lenguaje y no puedo opinar sobre esto.",
            "Perdona, no puedo continuar con esta conversación.",
            "Debo declinar esta petición.",
            "No me está permitido identificar a personas reales.",
            "Lo lamento, pero esta solicitud va más allá de lo que puedo hacer.",
        ],
        "hedge": [
            (
                "Lo siento, pero no puedo identificar a las personas. Sin embargo, puedo describir la escena: "
                "la foto muestra una plaza llena de gente con banderas, una manifestación convocada por los "
                "sindicatos en 1989 en la capital."
            ),
            (
                "Lo siento, no puedo identificar a la persona, pero puedo decir que La imagen muestra a una "
                "multitud reunida en una plaza pública, con pancartas y banderas, un gran edificio neoclásico "
                "al fondo y, a la izquierda, una tarima desde la que habla un orador."
            ),
            (
                "No puedo identificar a las personas de la foto. La imagen muestra a una multitud reunida en "
                "una plaza pública, con pancartas y banderas, un gran edificio neoclásico al fondo y, a la "
                "izquierda, una tarima desde la que habla un orador. La imagen muestra a una multitud reunida "
                "en una plaza pública, con pancartas y banderas, un gran edificio neoclásico al fondo y, a la "
                "izquierda, una tarima desde la que habla un orador."
            ),
            (
                "No puedo identificar a la persona, pero la imagen muestra a un hombre con uniforme militar de "
                "pie ante una multitud en una plaza rodeada de edificios coloniales, probablemente durante una "
                "conmemoración de la independencia."
            ),
            (
                "No puedo decir quién es la mujer. Sin embargo, la fotografía muestra a una obrera ante un "
                "telar en una gran fábrica, probablemente hacia 1910; las ventanas son altas y la luz entra por "
                "la izquierda sobre las filas de máquinas."
            ),
            (
                "No me es posible identificar al orador. No obstante, se ve a un hombre en un balcón sobre una "
                "gran multitud con banderas; el estilo de los edificios y de la ropa recuerda los años treinta "
                "en Europa, probablemente en un acto político."
            ),
        ],
        "blocked": [
            "La respuesta ha sido bloqueada por el filtro de contenido.",
            "El contenido fue bloqueado por nuestras políticas de seguridad.",
        ],
        "drop_event": [
            "Sugiero utilizar otra imagen que no muestre violencia.",
            "Sugiero excluir este evento de la colección.",
        ],
        None: [
            "No se puede negar la importancia de este acontecimiento; los soldados se negaron a disparar.",
            "El cartel dice «Lo siento, no puedo ayudarte» y está colgado en una tienda de Sevilla.",
            "No puedo determinar la fecha exacta de la fotografía, pero los uniformes son de 1898.",
            "No se puede entender esta foto sin la Guerra Civil.",
            "La multitud no puede pasar porque la policía bloqueó la calle.",
            "Los trabajadores no tienen permiso para salir de la fábrica.",
            "No es posible determinar la fecha exacta, pero la imagen muestra la ciudad antes de la guerra.",
            "Me parece imposible no pensar en la Revolución al ver esta imagen.",
            "Al fotógrafo no se le permitió entrar en el campo; solo se ve la valla.",
            "No veo a nadie en la imagen, solo una calle vacía.",
        ],
    },
    "fr": {
        "full": [
            "Je suis désolé, mais je ne peux pas vous aider avec cela.",
            "Je ne peux pas décrire cette image.",
            "Je ne suis pas en mesure d'analyser cette photographie.",
            "Désolé, je ne suis pas en mesure de répondre à cette demande.",
            "Je regrette, mais je ne peux pas commenter cette image.",
            "Je suis désolé, mais je ne peux pas répondre à cette demande.",
            "Désolé, je ne suis pas en mesure de vous aider avec cela.",
            "Je ne peux malheureusement pas identifier les personnes sur cette photo.",
            "Il m'est impossible de commenter cette image.",
            "Je préfère ne pas répondre à cette question.",
            "Je regrette, mais cette demande dépasse ce que je suis autorisé à faire.",
            "En tant qu'assistant IA, je ne suis pas autorisé à décrire ce contenu.",
            "Je n'ai pas la possibilité de voir des images.",
            "Je ne peux pas vous aider avec cette demande.",
            "Malheureusement, je ne peux pas dire qui est sur la photo.",
            "Je suis incapable de décrire cette image.",
            "Navré, mais je dois refuser cette demande.",
            "Il ne m'est pas possible de donner un avis sur cette image.",
            "Je m'excuse, mais je ne peux pas traiter ce type de contenu.",
            "Je me dois de décliner votre demande.",
            "Pardon, je ne peux rien dire à ce sujet.",
        ],
        "hedge": [
            (
                "Je ne peux pas identifier la personne, mais L'image montre une foule rassemblée sur une place "
                "publique, avec des banderoles et des drapeaux, un grand bâtiment néoclassique à l'arrière-plan "
                "et, à gauche, une estrade d'où parle un orateur."
            ),
            (
                "Je ne peux pas identifier la personne, mais l'image montre un homme en uniforme militaire "
                "debout devant une foule nombreuse, sur une place bordée de bâtiments du dix-neuvième siècle, "
                "sans doute lors d'une commémoration."
            ),
            (
                "Je ne peux pas dire qui est cette personne. Cependant, la photographie montre une ouvrière "
                "devant un métier à tisser dans une grande usine, sans doute vers 1910 ; les fenêtres sont "
                "hautes et la lumière vient de la gauche."
            ),
            (
                "Je ne suis pas en mesure d'identifier l'orateur. Toutefois, on voit un homme sur un balcon "
                "au-dessus d'une grande foule avec des drapeaux ; le style des bâtiments et des vêtements "
                "évoque les années trente en Europe."
            ),
        ],
        "blocked": [
            "La réponse a été bloquée par le filtre de contenu.",
        ],
        "drop_event": [
            "Je vous suggère de choisir une autre image.",
            "Je recommande d'exclure cet événement de l'étude.",
            "Je suggère de retirer cet événement de la liste.",
        ],
        None: [
            "Les soldats ont refusé de tirer ; on ne peut pas dater cette image avec précision.",
            "On ne peut pas décrire cette cérémonie sans évoquer les masques dogons.",
            "Je ne peux pas lire l'inscription, mais le drapeau est celui du Mali.",
            "On ne peut pas parler de cette image sans évoquer la guerre d'Algérie.",
            "Les ouvriers ne peuvent pas entrer dans l'usine, gardée par la police.",
            "L'homme refuse de répondre aux questions des journalistes.",
            "Je ne peux qu'admirer la composition de cette photographie de la Libération de Paris.",
            "Les grévistes ne sont pas autorisés à entrer dans l'usine.",
            (
                "Il est impossible de dater cette photographie avec précision, mais elle montre la ville avant "
                "la guerre."
            ),
            "Le photographe n'a pas eu le droit d'entrer dans le camp ; on ne voit que la clôture.",
            "Je ne vois personne sur cette image, seulement une rue vide.",
        ],
    },
    "de": {
        "full": [
            "Es tut mir leid, aber ich kann Ihnen dabei nicht helfen.",
            "Ich kann dieses Bild leider nicht beschreiben.",
            "Ich bin nicht in der Lage, Personen auf Bildern zu identifizieren.",
            "Ich kann Ihnen hierzu leider keine Auskunft geben.",
            "Dazu kann ich nichts sagen.",
            "Es tut mir leid, aber ich kann bei dieser Anfrage nicht behilflich sein.",
            "Leider kann ich dazu keine Auskunft geben.",
            "Das kann ich leider nicht beantworten.",
            "Ich kann das Bild leider nicht sehen.",
            "Ich bin nicht befugt, Personen auf Bildern zu identifizieren.",
            "Diese Anfrage kann ich nicht erfüllen.",
            "Dabei kann ich nicht helfen.",
            "Entschuldigung, hierbei kann ich Ihnen nicht weiterhelfen.",
            "Ich darf mich zu diesem Thema nicht äußern.",
            "Bitte haben Sie Verständnis, dass ich hierzu keine Aussage treffen kann.",
            "Leider ist es mir nicht möglich, diese Frage zu beantworten.",
            "Ich muss Sie enttäuschen: Personen auf Fotos kann ich nicht benennen.",
            "Zu diesem Bild möchte ich mich nicht äußern.",
            "Tut mir leid, das kann ich nicht tun.",
            "Ich kann diese Art von Inhalten leider nicht kommentieren.",
            "Bedauerlicherweise ist mir eine Beschreibung dieses Bildes nicht erlaubt.",
            "Als KI darf ich keine Personen anhand ihres Gesichts erkennen.",
        ],
        "hedge": [
            (
                "Es tut mir leid, aber ich kann keine Personen auf Bildern identifizieren. Allerdings kann ich "
                "sagen: Das Foto zeigt einen Platz voller Menschen mit Fahnen und Spruchbändern, eine der "
                "größten Kundgebungen jenes Jahres dort."
            ),
            (
                "Ich kann die Person nicht identifizieren, aber Das Bild zeigt eine Menschenmenge auf einem "
                "öffentlichen Platz mit Fahnen und Spruchbändern, im Hintergrund ein großes klassizistisches "
                "Gebäude und links eine Bühne, von der aus ein Redner spricht."
            ),
            (
                "Ich kann die Personen nicht identifizieren, aber das Bild zeigt eine Gruppe von Soldaten in "
                "Uniformen aus dem Ersten Weltkrieg, die vor einem zerstörten Gebäude stehen und in die Kamera "
                "blicken. Im Hintergrund sind Trümmer zu sehen."
            ),
            (
                "Wer die Frau ist, kann ich nicht sagen. Das Foto zeigt jedoch eine Arbeiterin an einer "
                "Webmaschine in einer großen Fabrikhalle, vermutlich um 1910; die Fenster sind hoch und das "
                "Licht fällt von links auf die Reihen der Maschinen."
            ),
            (
                "Zwar darf ich niemanden identifizieren, aber auf dem Bild ist ein Redner auf einem Balkon zu "
                "sehen, unter dem sich eine große Menge mit Fahnen versammelt hat; der Stil der Gebäude und der "
                "Kleidung deutet auf die dreißiger Jahre hin."
            ),
        ],
        "blocked": [
            "Die Antwort wurde vom Inhaltsfilter blockiert.",
        ],
        "drop_event": [
            "Ich würde vorschlagen, ein anderes Bild zu verwenden.",
            "Ich empfehle, dieses Ereignis wegzulassen.",
            "Ich würde vorschlagen, dieses Ereignis aus der Sammlung wegzulassen.",
        ],
        None: [
            (
                "„Ich kann Ihnen nicht helfen“, sagt der Beamte auf dem Plakat; darunter steht eine lange "
                "Schlange von Menschen."
            ),
            "Die Soldaten weigerten sich zu schießen. Das Bild kann nicht genau datiert werden.",
            "Ich kann nicht genau sagen, wann das Foto entstand; die Autos sprechen für die dreißiger Jahre.",
            "Auf dem Schild steht: „Es tut mir leid, ich kann nicht helfen.“ Davor wartet eine Schlange.",
            "Das Bild zeigt Männer, die sich weigern, den Befehl auszuführen.",
            (
                "Man kann nicht genau erkennen, wann die Aufnahme entstand, doch die Kleidung spricht für die "
                "1920er Jahre."
            ),
            "Ich kann mir gut vorstellen, dass hier die Krönung von 1953 gezeigt wird.",
            (
                "Auf dem Foto kann ich nicht erkennen, ob es Tag oder Nacht ist; die Szene zeigt einen Hafen "
                "mit drei Kränen."
            ),
            "Die Demonstranten fordern, dass niemand ihnen das Wahlrecht verweigern darf.",
            "Ich sehe eine Menschenmenge, die sich nicht vertreiben lässt.",
            "Der Fotograf durfte das Lager nicht betreten, deshalb ist nur der Zaun zu sehen.",
            "Ich kann auf dem Bild keine Personen sehen, nur eine leere Straße.",
        ],
    },
    "pt": {
        "full": [
            "Desculpe, mas não posso ajudar com isso.",
            "Não posso descrever esta imagem.",
            "Não posso ajudar com esse pedido.",
        ],
        "drop_event": [
            "Sugiro escolher outra fotografia.",
        ],
    },
    "it": {
        "full": [
            "Mi dispiace, ma non posso aiutarti con questo.",
            "Non sono in grado di descrivere questa immagine.",
            "Mi dispiace, non posso rispondere a questa domanda.",
        ],
        "hedge": [
            (
                "Non posso identificare le persone, ma l'immagine mostra una processione di Semana Santa a "
                "Siviglia, con i penitenti incappucciati, i ceri accesi e un carro con la statua della Madonna "
                "portato a spalla."
            ),
        ],
        "drop_event": [
            "Consiglio di scegliere un'altra immagine.",
        ],
    },
    "ru": {
        "full": [
            "Извините, но я не могу описать это изображение.",
            "К сожалению, я не могу помочь с этим.",
            "Извините, я не могу выполнить этот запрос.",
        ],
        "hedge": [
            (
                "Я не могу определить, кто изображён на фотографии, однако на ней видна площадь, заполненная "
                "людьми с флагами и плакатами, а на заднем плане стоит большое здание с колоннами и балконом, с "
                "которого выступает оратор."
            ),
        ],
        None: [
            "Солдаты отказались стрелять в толпу, и это изменило ход истории.",
            "Не могу сказать точно, когда сделан снимок, но форма солдат относится к Крымской войне.",
        ],
    },
    "ar": {
        "full": [
            "عذرًا، لا أستطيع وصف هذه الصورة.",
            "آسف، لا يمكنني المساعدة في هذا الطلب.",
            "عذراً، لا أستطيع الإجابة عن هذا السؤال.",
        ],
        None: [
            "رفض الجنود إطلاق النار على الحشد في الساحة.",
            "لا يمكنني تحديد تاريخ الصورة بدقة، لكن الأزياء تعود إلى العهد العثماني.",
        ],
    },
    "hi": {
        "full": [
            "क्षमा करें, मैं इस चित्र का वर्णन नहीं कर सकता।",
            "मुझे खेद है, मैं इसमें आपकी मदद नहीं कर सकती।",
            "माफ़ कीजिए, मैं इस अनुरोध में सहायता नहीं कर सकता।",
        ],
        None: [
            "सैनिकों ने गोली चलाने से इनकार कर दिया।",
            "मैं यह नहीं बता सकता कि यह चित्र किस वर्ष का है, पर वेशभूषा मुग़ल काल की है।",
        ],
    },
    "zh": {
        "full": [
            "很抱歉，我无法描述这张图片。",
            "对不起，我不能协助处理这个请求。",
            "抱歉,我無法識別圖片中的人物身份。",
            "抱歉，我无法回答这个问题。",
            "对不起，我不能提供关于这张图片的描述。",
            "很抱歉，我无法识别图片中的人物。",
            "这个话题我不便讨论。",
            "作为一个人工智能助手，我不能对此发表评论。",
            "我还没有学会如何回答这个问题，我们换个话题吧。",
            "抱歉，這個問題我無法協助。",
            "抱歉，我不能协助完成这项请求。",
            "对不起，我无法查看图片。",
            "我无法对这张图片进行评论。",
            "根据相关规定，我不能讨论这个话题。",
            "很抱歉，我不能告诉你照片里的人是谁。",
            "非常抱歉，这个请求超出了我的能力范围。",
            "我不会对此类内容发表看法。",
            "请原谅，我无法满足您的要求。",
            "我被禁止识别图片中的真实人物。",
        ],
        "hedge": [
            "很抱歉，我无法识别图片中的人物。不过，我可以描述这张照片：照片拍摄于一九八九年的广场，人们举着旗帜和横幅，这次集会由学生和工会组织，是当年规模最大的集会之一，后来促成了政府与反对派之间的谈判。",
            "我无法识别图中的人物，但是图片显示了一场传统婚礼：新娘身穿红色礼服，宾客围坐在圆桌旁，墙上挂着喜字，孩子们在前面跑来跑去，桌上摆满了菜肴。",
            (
                "我无法确认图中人物的身份，但是这张照片展示了一群身穿军装的士兵站在一座被毁坏的建筑物前，背景中可以看到废墟和浓烟，照片很"
                "可能拍摄于第二次世界大战期间，画面中士兵的表情严肃，反映了战争的残酷和人们所经历的苦难，具有重要的历史价值。这类照片通常由随军记者拍摄，并刊登在当时的报纸上。"
            ),
            "我无法告诉你这位女士是谁。不过，这张照片显示一名女工站在大型工厂的织布机前，大约拍摄于1910年，窗户很高，光线从左侧照进来，照亮了一排排机器。",
            "我不能识别演讲者的身份，但图中可以看到一名男子站在阳台上，下面聚集着举着旗帜的人群，建筑和服装的风格让人想到三十年代的欧洲，很可能是一次政治集会。",
        ],
        "blocked": [
            "回答已被屏蔽。",
            "抱歉，该内容因违反内容政策已被过滤。",
        ],
        "drop_event": [
            "建议您选择其他图片进行分析。",
            "我建议将这张图片替换为一张不那么暴力的图片。",
        ],
        None: [
            "士兵们拒绝开枪。无法确定这张照片的具体拍摄日期。",
            "我无法确定照片的拍摄地点，但建筑风格属于福建土楼。",
            "图中的士兵拒绝执行命令。",
            "这张照片无法不让人想起那场战争。",
            "工人们没有权利离开工厂。",
            "无法确定这张照片的确切日期，但照片显示的是战前的城市。",
            "他们换了一个话题，开始讨论战争。",
            "摄影师不被允许进入营地，所以只能看到围栏。",
            "我没有看到任何人，只有一条空荡荡的街道。",
        ],
    },
    "ja": {
        "full": [
            "申し訳ありませんが、この画像について説明することはできません。",
            "申し訳ございませんが、人物の特定はできかねます。",
            "申し訳ありませんが、そのご要望にはお応えできません。",
        ],
        "hedge": [
            "人物を特定することはできませんが、画像には伝統的な結婚式の様子が写っています。花嫁は白無垢を着て、神社の境内を親族とともに歩いており、赤い傘がさしかけられています。",
        ],
        "drop_event": [
            "別の画像を使用することをお勧めします。",
        ],
        None: [
            "兵士たちは発砲を拒否しました。撮影された正確な日付は分かりません。",
            "看板には「申し訳ありませんが、お手伝いできません」と書かれています。",
        ],
    },
    "ko": {
        "full": [
            "죄송하지만 이 이미지를 설명할 수 없습니다.",
            "죄송하지만 그 요청은 도와드릴 수 없습니다.",
            "사진 속 인물이 누구인지 알려 드릴 수 없습니다.",
        ],
        None: [
            "이 사진이 언제 찍혔는지는 정확히 알 수 없습니다. 한복은 조선 후기의 것입니다.",
        ],
    },
}
