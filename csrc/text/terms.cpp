#include "text/terms.hpp"

#include <algorithm>

#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace hyrecall::text {
namespace {

constexpr char32_t kCombiningDot = 0x307, kDotlessI = 0x131;
// A longer chain of joined words is text without spaces, not an identifier: only its parts are
// kept.
constexpr std::size_t kMaxCompound = 128;

std::u32string decode(std::string_view raw) {
  std::u32string out;
  out.reserve(raw.size());
  for (char const *at = raw.data(), *end = at + raw.size(); at < end;) {
    CodePoint const c = decode_utf8(at, end);
    out.push_back(c.value);
    at += c.size;
  }
  return out;
}

// Where each character of a token begins, and where the last one ends.
std::vector<std::uint32_t> byte_offsets(std::string_view raw) {
  std::vector<std::uint32_t> out{0};
  for (char const *at = raw.data(), *end = at + raw.size(); at < end;) {
    at += decode_utf8(at, end).size;
    out.push_back(static_cast<std::uint32_t>(at - raw.data()));
  }
  return out;
}

std::string encode(std::u32string_view text) {
  std::string out;
  for (char32_t const c : text) append_utf8(out, c);
  return out;
}

char32_t small_letter(char32_t c, Preset preset) {
  if (c == kDottedI) return U'i';
  if (preset == Preset::kTurkish && c == U'I') return kDotlessI;
  if (preset == Preset::kTurkishWords && c == kDotlessI) return U'i';
  return lower_of(c);
}

std::string lower(std::string_view raw, Preset preset) {
  std::string out;
  for (char32_t const c : decode(raw)) append_utf8(out, small_letter(c, preset));
  return out;
}

std::string fts5_fold(std::string_view raw, bool all_diacritics) {
  std::string out;
  for (char32_t const c : decode(raw))
    if (char32_t const folded = fts5_fold_of(c, all_diacritics); folded != 0)
      append_utf8(out, folded);
  return out;
}

bool is_hyphen(char32_t c) {
  return c == '-' || c == kHyphen || c == kNonBreakingHyphen;
}
bool is_joiner(char32_t c) {
  return is_hyphen(c) || c == '.' || c == '@' || c == '_';
}

// A word or identifier in its parts: cut at joiners and at the humps of camelCase.
struct Chunk {
  std::vector<std::u32string_view> parts;
  std::u32string_view suffix;  // "++", "#" or nothing
  bool is_identifier = false;  // to be kept whole, too
};

Chunk cut(std::u32string_view text) {
  std::uint16_t const* const flags = flag_table();
  Chunk chunk;
  while (text.size() > 1 && (text.back() == '+' || text.back() == '#')) {
    chunk.suffix = std::u32string_view(text.data() + text.size() - 1, chunk.suffix.size() + 1);
    text.remove_suffix(1);
    chunk.is_identifier = true;
  }
  std::size_t begin = 0;
  std::size_t upper_at = 0;  // the last capital of the part
  bool joined = false, digits = false;
  enum class Case { kNone, kLower, kUpper, kCapitals } state = Case::kNone;
  auto const close = [&](std::size_t end) {
    if (end > begin) chunk.parts.push_back(text.substr(begin, end - begin));
    begin = end;
  };
  auto const hump = [&](std::size_t at) {
    close(at);
    chunk.is_identifier = true;
  };
  auto const lower_follows = [&](std::size_t at) {
    while (at < text.size() && (flags[text[at]] & (kMark | kIgnorable)) != 0) ++at;
    return at < text.size() && (flags[text[at]] & kLower) != 0;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    char32_t const c = text[i];
    std::uint16_t const f = flags[c];
    if (is_joiner(c)) {
      close(i);
      begin = i + 1;
      joined = true;
      chunk.is_identifier = chunk.is_identifier || !is_hyphen(c);
      state = Case::kNone;
    } else if ((f & (kMark | kIgnorable)) != 0) {
      continue;  // belongs to its letter, whichever way the text was composed
    } else if ((f & kUpper) != 0) {
      if (state == Case::kLower) hump(i);
      state = state == Case::kUpper || state == Case::kCapitals ? Case::kCapitals : Case::kUpper;
      upper_at = i;
    } else if ((f & kLower) != 0) {
      // HTTPServer: the last capital starts a word if two small letters follow (PDFs is one word).
      if (state == Case::kCapitals && lower_follows(i + 1)) hump(upper_at);
      state = Case::kLower;
    } else {
      digits = digits || (f & kDigit) != 0;
      if (state != Case::kLower) state = Case::kNone;
    }
  }
  close(text.size());
  chunk.is_identifier = chunk.is_identifier || (joined && digits);
  return chunk;
}

std::string fold(std::u32string_view text) {
  return encode(fold_word(text));
}

// As the splitter cuts them.
bool is_emoji(std::u32string const& text) {
  if (!is_keycap_base(text[0])) return dense_group(flag_table()[text[0]]) == kEmoji;
  std::size_t const keycap = text.size() > 1 && text[1] == kEmojiLook ? 2 : 1;
  return text.size() > keycap && text[keycap] == kKeycap;
}

// Without what only says how it is drawn, and without marks, so that its spellings agree.
std::string emoji_term(std::u32string_view text) {
  std::u32string kept(1, text[0]);
  for (std::size_t i = 1; i < text.size(); ++i) {
    if (dense_group(flag_table()[text[i]]) == kEmoji) {
      if (text[i - 1] == kZeroWidthJoiner) kept.push_back(kZeroWidthJoiner);
      kept.push_back(text[i]);
    } else if (is_tag(text[i]) || (text[i] == kKeycap && is_keycap_base(kept.back()))) {
      kept.push_back(text[i]);
    }
  }
  return encode(kept);
}

RawTerms unicode_terms(std::string_view raw) {
  std::u32string text = decode(raw);
  if (int const group = dense_group(flag_table()[text[0]]); group != 0 && group != kEmoji)
    return {{{std::string(raw), 0}}, 1};  // a gram, folded already
  if (is_emoji(text)) return {{{emoji_term(text), 0}}, 1};
  for (char32_t& c : text)
    if (is_hyphen(c)) c = '-';
  Chunk const chunk = cut(text);
  RawTerms out;
  std::size_t const n = chunk.parts.size();
  bool const is_cut = n > 1 || !chunk.suffix.empty();
  std::vector<std::uint32_t> const bytes =
      is_cut ? byte_offsets(raw) : std::vector<std::uint32_t>{};
  auto const byte_of = [&](char32_t const* at) {
    return bytes[static_cast<std::size_t>(at - text.data())];
  };
  out.n_positions = static_cast<std::uint32_t>(n);
  bool const keeps_whole = chunk.is_identifier && is_cut && text.size() <= kMaxCompound;
  if (keeps_whole) out.terms.push_back({fold(text), 0});
  for (std::size_t i = 0; i < n; ++i) {
    std::string part = fold(chunk.parts[i]);
    auto const delta = static_cast<std::uint32_t>(i);
    Term made{{}, delta};
    if (is_cut) {
      made.begin = byte_of(chunk.parts[i].data());
      made.end = byte_of(chunk.parts[i].data() + chunk.parts[i].size());
    }
    // visual-c++: the last part is kept with its suffix and without.
    if (n > 1 && i + 1 == n && !chunk.suffix.empty())
      out.terms.push_back({part + encode(chunk.suffix), delta, made.begin});
    made.text = std::move(part);
    out.terms.push_back(std::move(made));
  }
  return out;
}

bool is_gram(std::string_view raw) {
  if (static_cast<unsigned char>(raw[0]) < 0x80) return false;
  int const group =
      dense_group(flag_table()[decode_utf8(raw.data(), raw.data() + raw.size()).value]);
  return group != 0 && group != kEmoji;
}

}  // namespace

std::string composed(std::string_view text, Preset preset) {
  bool const lowers =
      preset != Preset::kUnicode61 && preset != Preset::kPorter && preset != Preset::kPorterWords;
  std::u32string small;
  for (char32_t const c : canonical_form(decode(text))) {
    // A dot over a small i says nothing, except to Python.
    if (lowers && preset != Preset::kWord && c == kCombiningDot && small.ends_with(U'i')) continue;
    small.push_back(lowers ? small_letter(c, preset) : c);
    if (preset == Preset::kWord && c == kDottedI) small.push_back(kCombiningDot);
  }
  return encode(lowers ? canonical_form(small) : small);
}

bool is_its_own_term(std::string_view raw, Preset preset) {
  auto const is_plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (preset == Preset::kPorter) return false;
  return std::all_of(raw.begin(), raw.end(), is_plain) ||
         (preset == Preset::kUnicode && is_gram(raw));
}

RawTerms terms_of(std::string_view raw, Preset preset) {
  switch (preset) {
    case Preset::kUnicode:
      return unicode_terms(raw);
    case Preset::kWord:
    case Preset::kWordMarks:
    case Preset::kTurkish:
    case Preset::kTurkishWords:
      return {{{lower(raw, preset), 0}}, 1};
    case Preset::kUnicode61:
      return {{{fts5_fold(raw, /*all_diacritics=*/true), 0}}, 1};
    case Preset::kPorter:
    case Preset::kPorterWords:
      break;
  }
  std::string word = fts5_fold(raw, /*all_diacritics=*/false);
  if (preset == Preset::kPorter) porter_stem(word);
  return {{{std::move(word), 0}}, 1};
}

}  // namespace hyrecall::text
