"""Strings that tokenizers disagree about, by what makes them hard, and the way to ask for terms."""

import itertools
from collections.abc import Callable

import pytest

from hyrecall import _core

# fmt: off
PLAIN = [
    "The quick brown fox jumps over the lazy dog", "hello", "Hello, World!", "a", "", " ",
    "  two  spaces ", "tab\tand\nnewline\r\n", "UPPER lower Mixed", "x1 y22 z333", "3.14159",
    "1,000,000", "$99.95", "50% off", "don't", "it's John's", "rock 'n' roll", "well-known",
    "mother-in-law", "state-of-the-art", "e.g. i.e. etc.", "(parenthesised) [bracketed] {braced}",
    "semi;colon:colon", "ellipsis... and—dash–dash", "“quoted” ‘text’", "___",
    "_leading trailing_",
    "snake_case_name", "__init__", "a_b__c", "100_000",
]
IDENTIFIERS = [
    "INV-2026-0042", "getUserById", "CVE-2024-1234", "C++", "C#", "F#", ".NET", "c++17", "v1.2.3",
    "user@example.com", "https://example.com/a/b?c=d&e=f#g", "192.168.0.1", "fe80::1",
    "550e8400-e29b-41d4-a716-446655440000", "/usr/local/bin/python3.11", "C:\\Windows\\System32",
    "HTTPServer", "XMLHttpRequest", "iPhone15Pro", "PDFs", "@user #hashtag", "std::vector<int>",
    "a.b.c()", "x=y+z", "k8s i18n", "0xDEADBEEF", "1e-10", "2026-01-15T10:30:00Z",
    "+49 (0)30 1234-5678", "ISBN 978-3-16-148410-0",
]
LATIN_ACCENTS = [
    "café", "CAFÉ", "cafe\u0301", "naïve", "Ångström", "A\u030angstro\u0308m", "Łódź", "Straße",
    "STRASSE", "Øresund", "Æther œuvre", "ĳsvrij", "garçon", "mañana", "über", "Škoda", "Čapek",
    "žluťoučký kůň", "Tiếng Việt", "Nguyễn Văn Ánh", "ǖ ǘ ǚ ǜ", "Ǟ ǟ Ǻ ǻ", "ḉ ḕ ḗ ḝ ḯ",
    "ế ề ể ễ ệ",
    "o\u0302\u0301", "o\u0301\u0302", "u\u0308\u0304", "ŉ ǰ ẖ ẗ", "ƒ Ɓ ɓ", "þorn ðeth", "Þórður",
    "Ħal-Għaxaq", "đồng", "façade", "Pokémon", "jalapeño", "coöperate", "fiancée", "Motörhead",
    "São Paulo", "İstanbul'da", "Gdańsk", "Kraków", "Reykjavík", "Tōkyō",
]
CASE = [
    "İstanbul", "I ı i İ", "ISPARTA ısparta", "DİYARBAKIR", "iİiİ", "İİ", "aİb", "ΣΊΣΥΦΟΣ",
    "Σίσυφος", "ΟΔΥΣΣΕΥΣ", "Σ", "ΑΣ", "ΑΣ ΒΣ", "ΑΣ.", "ΑΣ'", "ΑΣ'Α", "ΑΣ\u0301", "ΑΣ\u0301Α",
    "'ΑΣ",
    "ΑΣΑΣ", "aΣ-bΣ", "Σ1", "1Σ", "ΑΣ·Β", "ΑΣ:Β", "ß ẞ", "ﬀ ﬁ ﬂ ﬃ ﬄ ﬅ ﬆ", "ǅ ǈ ǋ ǲ", "Ǆ ǆ",
    "K Å Ω",
    "µ μ", "ſ s", "ᾳ ᾼ Ὠ", "Ω ω", "Ⓐ ⓐ", "Ⅷ ⅷ", "Ა ა", "Ꭰ ꭰ",
]
GREEK_CYRILLIC = [
    "Καλημέρα κόσμε", "ΚΑΛΗΜΈΡΑ", "ἐν ἀρχῇ ἦν ὁ λόγος", "ᾠδή", "Ὀδυσσεύς", "ΐ ΰ", "Привет, мир",
    "ПРИВЕТ", "ёлка Ёлка", "йод", "и\u0306од", "Київ", "їжак", "м'ята", "Љубав њега", "Ђорђе",
    "Ѐ Ѝ", "Ѡ ѡ Ѳ", "\u0488 a\u0488b", "щука-рыба",
]
HAN_KANA = [
    "中", "中文", "中国人民", "我爱北京天安门", "東京都", "北京 上海", "漢字かな交じり文",
    "ひらがな", "カタカナ", "ﾊﾝｶｸ", "ｶﾞｷﾞｸﾞ", "が",
    "か\u3099", "パ", "ハ\u309a", "ラーメン", "人々", "〇一二三", "㊀㊁", "東京タワー2026",
    "iPhone手机壳", "中。国",
    "「引用」です", "全角ＡＢＣ１２３", "Ｆｕｌｌ－ｗｉｄｔｈ", "豈更", "𠀀𪛖", "㍿ ㌔", "々",
    "ー", "ㄅㄆㄇ", "𠮷野家", "葛\U000e0100城",
]
KOREAN = [
    "한국어", "대한민국 서울", "한국어 검색 엔진", "한국", "ㅋㅋㅋ", "ﾡﾢ", "서울2026",
    "Kim김", "책 이스탄불에서", "ㄱㅏ ㅎㅏㄴ", "각\u1100\u1161\u11a8", "한\u302e", "한국-어",
]
SOUTH_EAST_ASIA = [
    "ภาษาไทย", "สวัสดีครับ", "น้ำ", "ไทย๒๕๖๙", "กรุงเทพมหานคร", "ก็", "ພາສາລາວ", "ສະບາຍດີ",
    "ភាសាខ្មែរ", "សួស្តី", "មួយ\u200bពីរ", "မြန်မာ", "မင်္ဂလာပါ", "Thai ไทย mixed",
    "แม่\u200bน้ำ",
    "ๆ",
]
INDIC = [
    "हिन्दी", "हिन्दी भाषा", "क्षत्रिय", "नमस्ते", "कि\u200dताब", "क्\u200cष", "क़लम", "বাংলা",
    "কো", "কো", "தமிழ்", "கொ", "తెలుగు", "ಕನ್ನಡ", "മലയാളം", "ਪੰਜਾਬੀ", "ગુજરાતી", "ଓଡ଼ିଆ",
    "සිංහල",
    "१२३ रुपये", "॥ॐ॥",
]
RIGHT_TO_LEFT = [
    "שלום עולם", "שָׁלוֹם", "צה״ל", "ג׳ירפה", "العربية", "اللُّغَة العَرَبِيَّة", "ﺍﻟﻌﺮﺑﻴﺔ",
    "ﷺ ﷲ",
    "آ أ إ", "آ", "می\u200cخواهم", "کتاب\u200cها", "٢٠٢٦", "۱۲۳", "\u200fעברית\u200f abc",
    "\u202bمرحبا\u202c", "كتــاب ـكتاب", "ٱلْحَمْدُ", "سُئِلَ مؤمن ۂ ۓ",
    "\ufe77م\ufe77م \ufe70", "יִדיש", "ܣܘܪܝܝܐ", "ދިވެހި",
]
EMOJI_AND_SIGNS = [
    "🇩🇪🇫🇷🇩 x🇩", "1\ufe0f\u20e32\u20e3", "a1\u20e3b 12\ufe0f\u20e3 2024-1\u20e3",
    "#\ufe0f\u20e3 *\u20e3 C#\u20e3 #\u20e3\u20e3", "❤ ❤\ufe0f ❤\ufe0e",
    "🏴\U000e0067\U000e0062\U000e007f 🏴",
    "🏽 👍🏽🏿 a🏽", "😀\u200da\u200d😀 🇩\u200d😀", "✔ ★ ℹ ▪ ㊗ 🈁 🀄 \U0001fae8",
    "🍕\u0301\u0301 🍕\u200d",
    "😀", "a😀b", "👍🏽 ok", "👨\u200d👩\u200d👧", "🏳\ufe0f\u200d🌈", "🇩🇪", "1\ufe0f⃣", "©®™",
    "5€ £3 ¥7",
    "±×÷", "a≠b", "x²+y³", "H₂O", "½ ¾ ⅓", "℃ ℡ №", "①②⑩", "♥ a♥b", "∑ ∂x", "→ a→b", "…", "·",
    "a·b", "l·l", "′ ″", "¿qué?", "¡hola!", "§5", "†", "𝔘𝔫𝔦𝔠𝔬𝔡𝔢", "𝟙𝟚𝟛", "ª º", "ʰʲʷ",
]
DIGITS = [
    "٠١٢", "०१२", "০১২", "๐๑๒", "០១២", "၀၁၂", "０１２", "߀߁߂", "𞥐𞥑", "Ⅻ", "൰", "四十二", "〡〢",
    "a1١१",
]
MARKS_AND_CONTROLS = [
    "\u0301", "\u0301a", "a\u0301\u0302\u0303", "a \u0301b", "1\u0301", "_\u0301", "\u0300x",
    "x\u031by", "x\u0323y", "x\u034fy", "soft\xadhyphen", "zero\u200bwidth", "join\u200der",
    "non\u200cjoiner", "word\u2060joiner", "\ufeffbom", "in\ufeffside", "a\xa0b",
    "a\u2028b\u2029c",
    "nul\x00nul", "\x00", "a\x00", "\x00a", "\x01\x02x\x7f", "x\x85y", "� a�b", "\uffff",
    "\ufdd0x",
    "\U0010ffff", "\ue000private", "\u0378unassigned", "\U000f0000", "a⃝b", "a\ufe00b",
    "ʼn ʻokina",
    "e\u0301é",
]
STEMS = [
    "running runs ran runner", "caresses ponies ties caress cats",
    "feed agreed plastered bled motoring sing",
    "conflated troubled sized hopping tanned falling hissing fizzed failing filing",
    "happy sky say yly syzygy",
    "relational conditional rational valenci hesitanci "
    "digitizer conformabli radicalli differentli vileli analogousli",
    "vietnamization predication operator feudalism decisiveness "
    "hopefulness callousness formaliti sensitiviti sensibiliti",
    "triplicate formative formalize electriciti electrical hopeful goodness",
    "analogi logi bli ably possibly",
    "revival allowance inference airliner gyroscopic "
    "adjustable defensible irritant replacement adjustment dependent",
    "adoption homologou communism activate angulariti homologous effective bowdlerize",
    "probate rate cease controll roll", "is as us be i s ss ies sses eed ed ing",
    "yyy yying uiryying ying eying", "oscillation generalizations international",
]
LONG = [
    "a" * 5000, "ab" * 40 + "ing", "x" * 61 + "ing", "x" * 62 + "ing", "é" * 40 + "s", "中" * 300,
    "a-" * 400, "a.b" * 200, "word " * 500, "ΑΣ" * 300, "\u0301" * 300, "aB" * 300, "ा" * 50,
    "ก" * 100, " " * 1000 + "end",
]
TABLE = [
    *PLAIN, *IDENTIFIERS, *LATIN_ACCENTS, *CASE, *GREEK_CYRILLIC, *HAN_KANA, *KOREAN,
    *SOUTH_EAST_ASIA, *INDIC, *RIGHT_TO_LEFT, *EMOJI_AND_SIGNS, *DIGITS, *MARKS_AND_CONTROLS,
    *LONG, *STEMS,
]
# fmt: on

Terms = list[tuple[str, int]]
Ask = Callable[..., list[Terms]]


@pytest.fixture(scope="session")
def table() -> list[str]:
    assert len(set(TABLE)) == len(TABLE) >= 300
    return TABLE


@pytest.fixture(scope="session")
def ask() -> Ask:
    """ask(native, texts, role="document") -> for each text its (term, position) pairs."""

    def run(
        native: _core.Analyzer, texts: list[str | bytes], role: str = "document"
    ) -> list[Terms]:
        terms, offsets, ids, positions, lengths = native.analyze(texts, role)
        assert len(set(terms)) == len(terms)
        assert len(lengths) == len(texts)
        tokens = [(terms[i], p) for i, p in zip(ids.tolist(), positions.tolist(), strict=True)]
        ends = offsets.tolist()
        return [tokens[a:b] for a, b in itertools.pairwise(ends)]

    return run
