"""Words, invented towns, events and search terms for the synthetic corpus."""

# words for the sentences and titles of filler rows, by language
WORDS = {
    "en": "river market garden bridge winter lantern village school orchard mill boat song weaver mountain clock bread "
    "letter island road summer".split(),
    "de": "Fluss Markt Garten Brücke Winter Laterne Dorf Schule Mühle Boot Lied Straße Berg Uhr Brot Brief Insel "
    "Sommer".split(),
    "fr": "rivière marché jardin pont hiver lanterne village école moulin bateau chanson été montagne horloge pain "
    "lettre île forêt".split(),
    "es": "río mercado jardín puente invierno farol pueblo escuela molino barco canción montaña reloj pan carta isla "
    "camino otoño".split(),
    "tr": "nehir çarşı bahçe köprü kış fener köy okul değirmen tekne şarkı dağ saat ekmek mektup ada yol".split(),
    "sw": "mto soko bustani daraja taa kijiji shule kinu mashua wimbo mlima saa mkate barua kisiwa njia".split(),
    "ru": "река рынок сад мост зима фонарь деревня школа мельница лодка песня гора часы хлеб письмо остров".split(),
    "uk": "річка ринок сад міст зима ліхтар село школа млин човен пісня гора годинник хліб лист острів".split(),
    "el": "ποτάμι αγορά κήπος γέφυρα χειμώνας φανάρι χωριό σχολείο μύλος βάρκα τραγούδι βουνό ρολόι ψωμί νησί".split(),
    "ar": "نهر سوق حديقة جسر شتاء فانوس قرية مدرسة طاحونة قارب أغنية جبل ساعة خبز رسالة جزيرة".split(),
    "he": "נהר שוק גינה גשר חורף פנס כפר מטחנה סירה שיר הר שעון לחם מכתב אי".split(),
    "hi": "नदी बाज़ार बगीचा पुल सर्दी दीपक गाँव विद्यालय चक्की नाव गीत पहाड़ घड़ी रोटी पत्र द्वीप".split(),
    "zh": "河流 市场 花园 桥 冬天 灯笼 村庄 学校 磨坊 小船 歌曲 山 钟 面包 信 岛".split(),
    "ja": "川 市場 庭 橋 冬 提灯 村 学校 水車 小舟 歌 山 時計 パン 手紙 島".split(),
    "ko": "강 시장 정원 다리 겨울 등불 마을 학교 방앗간 배 노래 산 시계 빵 편지 섬".split(),
}
UNSPACED = ("zh", "ja")

# Invented towns, one of them with letters whose lower case is not ASCII's.
PLACES = (
    "Marrowby Ilvane Ostrevald Lindmoor Quellan Tarrowick Brenna Sandhaven Évriel Korrin Dunmarsh Vesperley Åsholt "
    "Nerith Calderwyn Puerto-Salvo Ölendorf Thessaly-on-Wold Zimbrel Rookhaven"
).split()
EVENTS = (
    "Harbour strike of 1911", "Flood of 1927", "Tram opening of 1898", "Lantern march of 1936", "Great frost of 1709",
    "Weavers' petition of 1844", "Lighthouse jubilee", "Canal inauguration", "Orchard accord", "Bakers' strike",
    "Railway centenary", "Miners' festival of 1952", "Observatory fire of 1873", "Bridge collapse of 1881",
    "Bread riots of 1795", "Women's suffrage rally", "Schoolteachers' walkout", "Ferry disaster of 1903",
    "Island referendum of 1967", "Fête de la moisson", "Émeute des tisserands", "Old Town earthquake of 1755",
    "Copper treaty", "Peace of the Two Rivers", "Coronation regatta", "World Kite Exhibition", "Northern Salt Route",
    "Dockworkers' union", "First Balloon Crossing", "Siege of the Grey Tower", "Market Hall occupation",
    "Printers' lockout of 1926", "Liberation parade of 1945", "Independence Day procession", "Drought of 1934",
    "Long Night of the Comet", "Fishermen's blockade", "Assembly of the Seven Valleys", "Cholera quarantine of 1832",
    "Students' spring", "Locust summer of 1915", "Postal reform of 1840", "Telegraph jubilee", "Pilgrims' winter",
    "Abolition congress", "Timber rebellion", "Glassmakers' exodus", "Polar relief expedition", "Clock tower vigil",
    "Children's crusade for books", "Rice tax revolt", "Two Harbours armistice", "Marsh reclamation of 1688",
    "Anti-dam movement", "Potters' cooperative", "General strike of Vesperley", "Salt cathedral restoration",
    "Sunflower constitution", "Great Lindmoor fair", "Battle of Quellan Ford",
)  # fmt: skip
SETTINGS = (
    "{event}", "{event} in {place}", "{place} {event}", "Aftermath of the {event} ({place})",
    "{event} memorial, {place}",
)  # fmt: skip
# Titles that are parsed correctly only by a reader of quoted fields and Unicode letters.
AWKWARD_SETTINGS = ('"{event}" (song)', 'The "{event}" at {place}', "{event}\tand\n{place}", "{EVENT}, {PLACE}")
