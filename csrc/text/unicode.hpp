// What the analyzer knows about characters; the tables are made by tools/unicode_tables.py.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace hyrecall::text {

inline constexpr char32_t kDottedI = 0x130, kHyphen = 0x2010, kNonBreakingHyphen = 0x2011;
inline constexpr char32_t kZeroWidthJoiner = 0x200D, kEmojiLook = 0xFE0F, kKeycap = 0x20E3;

// Bits of a character. tools/unicode_tables.py has the same list.
enum CharFlag : std::uint16_t {
  kWord = 1 << 0,           // Python's \w, asked of the lower-cased character
  kCased = 1 << 1,          // cased, as the rule of the final sigma sees it
  kCaseIgnorable = 1 << 2,  // looked through by that rule
  kFtsStart = 1 << 3,       // a token character of FTS5's unicode61
  kFtsMark = 1 << 4,        // a diacritic that unicode61 keeps inside a token and drops
  kLetter = 1 << 5,         // letter or number
  kMark = 1 << 6,           // combining mark that belongs to its word
  kIgnorable = 1 << 7,      // format character, variation selector: inside words, never in terms
  kUpper = 1 << 8,
  kLower = 1 << 9,
  kDigit = 1 << 10,      // any number (categories Nd, Nl, No)
  kFoldMarks = 1 << 11,  // Latin, Greek, Cyrillic, Hebrew, Arabic, numbers: their nonspacing marks
                         // are accents, points and vowel signs
};
// Bits 12..14: 0, or the group of scripts that are cut into pairs of characters (1 Han and kana, 2
// Thai, 3 Lao, 4 Khmer, 5 Myanmar, 6 Hangul), or kEmoji.
inline constexpr int kEmoji = 7;
inline constexpr int kDenseShift = 12;
inline int dense_group(std::uint16_t flags) {
  return flags >> kDenseShift & 7;
}
inline constexpr std::uint16_t kMayCompose = 1 << 15;  // text without these is in NFC

// One entry a code point; made on first use (2.2 MB, about a millisecond), read-only after.
std::uint16_t const* flag_table();

char const* table_version();

// Python's str.lower() of one character, but U+0130, whose lower case is two (callers know it).
char32_t lower_of(char32_t c);

// FTS5 unicode61's fold of one character; 0 drops it. `all_diacritics` is remove_diacritics=2, else
// =1.
char32_t fts5_fold_of(char32_t c, bool all_diacritics);

// The parts of a flag are two of these.
inline bool is_flag_letter(char32_t c) {
  return c >= 0x1F1E6 && c <= 0x1F1FF;
}
inline bool is_skin_tone(char32_t c) {
  return c >= 0x1F3FB && c <= 0x1F3FF;
}
inline bool is_keycap_base(char32_t c) {
  return (c >= '0' && c <= '9') || c == '#' || c == '*';
}
// Letters that no reader sees; they tell the flag of England from a black flag.
inline bool is_tag(char32_t c) {
  return c >= 0xE0020 && c <= 0xE007F;
}

// The folded form of a word: casefold and NFKD, the marks of kFoldMarks dropped (but not a hamza
// over another letter than alef), strokes and digits plain, then composed (NFC), so that every
// spelling of the same text gives the same bytes.
std::u32string fold_word(std::u32string_view word);

// Whether a character is its own folded form, whatever stands beside it: Han, kana and Hangul
// syllables, but not all characters that are.
inline bool folds_to_itself(char32_t c) {
  auto const is_in = [c](char32_t first, char32_t last) { return first <= c && c <= last; };
  return is_in(0x4E00, 0x9FFF) || is_in(0xAC00, 0xD7A3) || is_in(0x3041, 0x3096) ||
         is_in(0x30A1, 0x30FE) || is_in(0x3400, 0x4DBF) || is_in(0x3005, 0x3007);
}

// How many of the first characters of a text make a piece: the form of the text is the forms of its
// pieces, back to back. A piece is a character with its marks.
std::size_t fold_piece(std::u32string_view text);       // of fold_word
std::size_t canonical_piece(std::u32string_view text);  // of canonical_form

// Whether the UTF-8 text has a character that NFC may change.
bool may_compose(std::string_view text);
// NFC.
std::u32string canonical_form(std::u32string_view text);

}  // namespace hyrecall::text
