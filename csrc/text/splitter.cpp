#include "text/splitter.hpp"

#include <array>
#include <bit>
#include <cstring>
#include <span>
#include <string>

#include "text/terms.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace hyrecall::text {
namespace {

constexpr char32_t kCapitalSigma = 0x3A3, kSmallSigma = 0x3C3, kFinalSigma = 0x3C2;

constexpr std::string_view kEmojiLookUtf8 = "\xEF\xB8\x8F", kKeycapUtf8 = "\xE2\x83\xA3";

constexpr bool is_ascii_alnum(int c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

using AsciiSet = std::array<bool, 128>;
constexpr AsciiSet ascii_set(bool underscore) {
  AsciiSet set{};
  for (int c = 0; c < 128; ++c)
    set[static_cast<std::size_t>(c)] = is_ascii_alnum(c) || (underscore && c == '_');
  return set;
}
constexpr AsciiSet kAsciiWord = ascii_set(true);
constexpr AsciiSet kAsciiAlnum = ascii_set(false);

unsigned char byte_at(char const* at) {
  return static_cast<unsigned char>(*at);
}

constexpr std::uint64_t every_byte(std::uint64_t value) {
  return value * 0x0101010101010101ULL;
}

// The high bit of each byte in [first, last], of eight bytes below 128.
constexpr std::uint64_t bytes_between(std::uint64_t bytes, char first, char last) {
  auto const low = static_cast<std::uint64_t>(first), high = static_cast<std::uint64_t>(last);
  return (bytes + every_byte(0x80 - low)) & ~(bytes + every_byte(0x7f - high)) & every_byte(0x80);
}

// The high bit of each byte that is an ASCII letter, a digit or, if so wished, an underscore.
constexpr std::uint64_t ascii_word_bytes(std::uint64_t bytes, bool underscore) {
  std::uint64_t const low = bytes & every_byte(0x7f);
  std::uint64_t found =
      bytes_between(low | every_byte(0x20), 'a', 'z') | bytes_between(low, '0', '9');
  if (underscore) found |= bytes_between(low, '_', '_');
  return found & ~bytes;
}

// The first byte that is none of these, or the end. Most words end within the first eight bytes.
char const* skip_ascii_word(char const* at, char const* end, bool underscore) {
  if constexpr (std::endian::native == std::endian::little) {
    for (; end - at >= 8; at += 8) {
      std::uint64_t bytes;
      std::memcpy(&bytes, at, 8);
      std::uint64_t const others = ~ascii_word_bytes(bytes, underscore) & every_byte(0x80);
      if (others != 0) return at + std::countr_zero(others) / 8;
    }
  }
  AsciiSet const& set = underscore ? kAsciiWord : kAsciiAlnum;
  while (at < end && byte_at(at) < 0x80 && set[byte_at(at)]) ++at;
  return at;
}

// What differs between the presets whose tokens are plain runs of characters.
struct RunRules {
  bool underscore;       // beside ASCII letters and digits it starts and continues a token
  std::uint16_t starts;  // flags of characters from 128 on that start one
  std::uint16_t continues;
  bool lowers;               // capital sigma depends on its surroundings
  bool ends_after_dotted_i;  // its lower case is i and a mark, and the mark ends the word
};

RunRules rules_of(Preset preset) {
  switch (preset) {
    case Preset::kWord:
      return {true, kWord, kWord, true, true};
    case Preset::kWordMarks:
    case Preset::kTurkish:
    case Preset::kTurkishWords:
      return {true, kWord, kWord | kMark, true, false};
    default:
      return {false, kFtsStart, kFtsStart | kFtsMark, false, false};
  }
}

class Splitter {
 public:
  Splitter(Role role, RawBatch& out) : flags_(flag_table()), role_(role), out_(out) {}

  void split_runs(std::string_view text, RunRules const& rules);
  // The text composed, with its words as they will be.
  std::string compose(std::string_view text, Preset preset);
  void split_unicode(std::string_view text);
  // Makes the spans from number `first` on, which are of the composed text, those of the text.
  void to_source(std::string_view text, Preset preset, std::size_t first);

 private:
  Span span_of(char const* begin, char const* end) const {
    return {static_cast<std::size_t>(begin - text_begin_),
            static_cast<std::size_t>(end - text_begin_)};
  }
  // A slice of the text: it waits, so that many are looked up together.
  void emit_slice(char const* begin, char const* end) {
    if (out_.locates) out_.spans.push_back(span_of(begin, end));
    slices_.emplace_back(begin, static_cast<std::size_t>(end - begin));
    if (slices_.size() == kSlices) look_up_slices();
  }
  // The same of a gram, which must stay where it is as long. It holds the position of the next.
  void emit_gram(std::string_view gram, Span from, bool holds) {
    if (out_.locates) out_.spans.push_back(from);
    if (holds) holding_.push_back(slices_.size());
    slices_.push_back(gram);
    if (slices_.size() == kSlices) look_up_slices();
  }
  void look_up_slices() {
    std::size_t const first = out_.items.size();
    out_.raws.add_all(slices_, out_.items);
    slices_.clear();
    for (std::size_t const at : holding_) out_.items[first + at] |= RawBatch::kHold;
    holding_.clear();
  }
  // What is no slice, after the slices before it, and what it was made of.
  void emit_made(std::string_view raw, Span from) {
    look_up_slices();
    out_.items.push_back(out_.raws.add(raw));
    if (out_.locates) out_.spans.push_back(from);
  }

  bool is_final_sigma(char const* at) const;
  std::string_view resolve_sigmas(char const* begin, char const* end);

  bool starts_word(char const* at) const;
  char const* word_end(char const* at) const;
  char const* chunk_end(char const* at) const;
  bool is_keycap(char const* at) const;
  char const* keycap_base(char const* at) const;
  char const* emoji_end(char const* at) const;
  char const* take_dense(char const* at, int group);
  void fold_run();
  void locate_grams();
  void emit_grams(char const* base);

  static constexpr std::size_t kSlices = 256;

  std::uint16_t const* flags_;
  Role role_;
  RawBatch& out_;
  char const* text_begin_ = nullptr;
  char const* text_end_ = nullptr;
  std::vector<std::string_view> slices_;  // in text order, not yet looked up
  std::vector<std::size_t> holding_;      // those of slices_ that hold a position
  std::string scratch_;
  std::u32string run_;
  std::string grams_;                     // one run, folded, as UTF-8
  std::vector<std::size_t> gram_starts_;  // of its characters with their marks, and the end
  std::vector<char const*> run_at_;       // where the characters of the run begin, and the end
  // If it locates: what of the text each of the run's folded characters was made of, and each of
  // those with its marks.
  std::vector<Span> folded_from_;
  std::vector<Span> gram_from_;
};

// Unicode's Final_Sigma, as Python's str.lower() has it: a cased character before and none after,
// looking through case-ignorable ones. Each look ends at the next sigma, so a text costs linear
// time.
bool Splitter::is_final_sigma(char const* at) const {
  char const* back = at;
  bool cased = false;
  while (back > text_begin_) {
    CodePoint const c = decode_utf8_before(text_begin_, back);
    back -= c.size;
    if ((flags_[c.value] & kCaseIgnorable) != 0) continue;
    cased = (flags_[c.value] & kCased) != 0;
    break;
  }
  if (!cased) return false;
  for (char const* next = at + 2; next < text_end_;) {
    CodePoint const c = decode_utf8(next, text_end_);
    next += c.size;
    if ((flags_[c.value] & kCaseIgnorable) == 0) return (flags_[c.value] & kCased) == 0;
  }
  return true;
}

std::string_view Splitter::resolve_sigmas(char const* begin, char const* end) {
  scratch_.clear();
  for (char const* at = begin; at < end;) {
    CodePoint const c = decode_utf8(at, end);
    append_utf8(scratch_, c.value != kCapitalSigma ? c.value
                          : is_final_sigma(at)     ? kFinalSigma
                                                   : kSmallSigma);
    at += c.size;
  }
  return scratch_;
}

std::string Splitter::compose(std::string_view text, Preset preset) {
  text_begin_ = text.data();
  text_end_ = text.data() + text.size();
  if (rules_of(preset).lowers) text = resolve_sigmas(text_begin_, text_end_);
  return composed(text, preset);
}

// Composing goes piece by piece, so a part of the composed text was made of the pieces it touches.
void Splitter::to_source(std::string_view text, Preset preset, std::size_t first) {
  text_begin_ = text.data();
  text_end_ = text.data() + text.size();
  std::u32string characters;
  std::vector<std::size_t> places;  // of the characters, and the end
  for (char const* at = text_begin_; at < text_end_;) {
    CodePoint const c = decode_utf8(at, text_end_);
    places.push_back(static_cast<std::size_t>(at - text_begin_));
    bool const is_sigma = c.value == kCapitalSigma && rules_of(preset).lowers;
    characters.push_back(is_sigma ? kSmallSigma : c.value);
    at += c.size;
  }
  places.push_back(text.size());
  std::size_t begin = 0, end = 0, made = 0;  // of a piece, and where its composed form ends
  std::string piece;
  auto const next_piece = [&] {
    begin = end;
    end += canonical_piece(std::u32string_view(characters).substr(begin));
    piece.clear();
    for (std::size_t at = begin; at < end; ++at) append_utf8(piece, characters[at]);
    made += composed(piece, preset).size();
  };
  for (Span& span : std::span(out_.spans).subspan(first)) {
    while (made <= span.begin) next_piece();
    std::size_t const from = places[begin];
    while (made < span.end) next_piece();
    span = {from, places[end]};
  }
}

void Splitter::split_runs(std::string_view text, RunRules const& rules) {
  text_begin_ = text.data();
  text_end_ = text.data() + text.size();
  AsciiSet const& ascii = rules.underscore ? kAsciiWord : kAsciiAlnum;
  char const* at = text_begin_;
  while (at < text_end_) {
    if (byte_at(at) < 0x80) {
      if (!ascii[byte_at(at)]) {
        ++at;
        continue;
      }
    } else if (CodePoint const c = decode_utf8(at, text_end_);
               (flags_[c.value] & rules.starts) == 0) {
      at += c.size;
      continue;
    }
    char const* const begin = at;
    bool has_sigma = false;
    for (;;) {
      at = skip_ascii_word(at, text_end_, rules.underscore);
      if (at >= text_end_ || byte_at(at) < 0x80) break;
      CodePoint const c = decode_utf8(at, text_end_);
      if ((flags_[c.value] & rules.continues) == 0) break;
      at += c.size;
      has_sigma = has_sigma || c.value == kCapitalSigma;
      if (c.value == kDottedI && rules.ends_after_dotted_i) break;
    }
    if (has_sigma && rules.lowers)
      emit_made(resolve_sigmas(begin, at), span_of(begin, at));
    else
      emit_slice(begin, at);
  }
  look_up_slices();
}

bool Splitter::starts_word(char const* at) const {
  if (at >= text_end_) return false;
  if (byte_at(at) < 0x80) return kAsciiAlnum[byte_at(at)] && !is_keycap(at);
  std::uint16_t const flags = flags_[decode_utf8(at, text_end_).value];
  return (flags & kLetter) != 0 && dense_group(flags) == 0;
}

char const* Splitter::word_end(char const* at) const {
  for (;;) {
    at = skip_ascii_word(at, text_end_, /*underscore=*/false);
    if (at >= text_end_ || byte_at(at) < 0x80) return at;
    CodePoint const c = decode_utf8(at, text_end_);
    std::uint16_t const flags = flags_[c.value];
    if ((flags & (kLetter | kMark | kIgnorable)) == 0 || dense_group(flags) != 0) return at;
    if (c.value == kKeycap)
      if (char const* const base = keycap_base(at)) return base;
    at += c.size;
  }
}

// Words joined by one of - . @ or by underscores, and `++` or `#` at the end (`C++`, `C#`).
char const* Splitter::chunk_end(char const* at) const {
  for (;;) {
    at = word_end(at);
    if (at >= text_end_) return at;
    char const* next = at;
    if (*at == '-' || *at == '.' || *at == '@') {
      ++next;
    } else if (*at == '_') {
      while (next < text_end_ && *next == '_') ++next;
    } else if (byte_at(at) >= 0x80) {
      CodePoint const c = decode_utf8(at, text_end_);
      if (c.value == kHyphen || c.value == kNonBreakingHyphen) next += c.size;
    }
    if (next == at || !starts_word(next)) break;
    at = next;
  }
  if (*at == '+' && at + 1 < text_end_ && at[1] == '+') return at + 2;
  if (*at == '#' && !starts_word(at + 1) && !is_keycap(at)) return at + 1;
  return at;
}

// Whether an emoji of a digit, # or * and a keycap begins here.
bool Splitter::is_keycap(char const* at) const {
  if (!is_keycap_base(byte_at(at))) return false;
  std::string_view rest(at + 1, static_cast<std::size_t>(text_end_ - at - 1));
  if (rest.starts_with(kEmojiLookUtf8)) rest.remove_prefix(kEmojiLookUtf8.size());
  return rest.starts_with(kKeycapUtf8);
}

// Where the emoji begins whose keycap stands here; null if it is no emoji's.
char const* Splitter::keycap_base(char const* at) const {
  for (std::size_t const back : {std::size_t{1}, 1 + kEmojiLookUtf8.size()})
    if (static_cast<std::size_t>(at - text_begin_) >= back && is_keycap(at - back))
      return at - back;
  return nullptr;
}

// A grapheme cluster (UAX #29): a flag is two letters, a joiner joins pictures; skin tones, marks,
// tags and keycaps belong to what is before them.
char const* Splitter::emoji_end(char const* at) const {
  CodePoint const first = decode_utf8(at, text_end_);
  at += first.size;
  bool const is_picture = first.value >= 0x80 && !is_flag_letter(first.value);
  bool completes_flag = is_flag_letter(first.value), joins = false;
  while (at < text_end_) {
    CodePoint const c = decode_utf8(at, text_end_);
    std::uint16_t const flags = flags_[c.value];
    bool const is_letter = is_flag_letter(c.value);
    bool const goes_on = dense_group(flags) == kEmoji
                             ? is_skin_tone(c.value) || (is_letter ? completes_flag : joins)
                             : (flags & (kMark | kIgnorable)) != 0;
    if (!goes_on) return at;
    joins = is_picture && c.value == kZeroWidthJoiner;
    completes_flag = false;
    at += c.size;
  }
  return at;
}

// A run of a script that is cut into pairs: folded whole, then cut into characters with their
// marks. Most runs are what they fold to.
char const* Splitter::take_dense(char const* at, int group) {
  run_.clear();
  run_at_.clear();
  gram_starts_.clear();
  gram_from_.clear();
  bool is_folded = true;
  while (at < text_end_) {
    CodePoint const c = decode_utf8(at, text_end_);
    std::uint16_t const flags = flags_[c.value];
    if (dense_group(flags) != group && (flags & (kMark | kIgnorable)) == 0) break;
    is_folded = is_folded && folds_to_itself(c.value);
    run_.push_back(c.value);
    run_at_.push_back(at);
    at += c.size;
  }
  run_at_.push_back(at);
  if (!is_folded) {
    fold_run();
    emit_grams(grams_.data());
    look_up_slices();
    return at;
  }
  for (char const* const one : run_at_)
    gram_starts_.push_back(static_cast<std::size_t>(one - text_begin_));
  for (std::size_t i = 0; out_.locates && i < run_.size(); ++i)
    gram_from_.push_back({gram_starts_[i], gram_starts_[i + 1]});
  emit_grams(text_begin_);
  return at;
}

void Splitter::fold_run() {
  if (out_.locates) locate_grams();
  grams_.clear();
  std::size_t n_folded = 0;
  for (char32_t const c : fold_word(run_)) {
    bool const begins = gram_starts_.empty() || (flags_[c] & kMark) == 0;
    if (begins) gram_starts_.push_back(grams_.size());
    append_utf8(grams_, c);
    if (!out_.locates) continue;
    Span const from = folded_from_[n_folded++];
    if (begins) gram_from_.push_back(from);
    gram_from_.back().end = from.end;
  }
  gram_starts_.push_back(grams_.size());
}

void Splitter::locate_grams() {
  folded_from_.clear();
  std::u32string_view const run = run_;
  for (std::size_t at = 0; at < run.size();) {
    std::size_t const n = fold_piece(run.substr(at));
    folded_from_.insert(folded_from_.end(), fold_word(run.substr(at, n)).size(),
                        span_of(run_at_[at], run_at_[at + n]));
    at += n;
  }
}

// base: what gram_starts_ count from.
void Splitter::emit_grams(char const* base) {
  std::size_t const n = gram_starts_.size() - 1;
  auto const emit = [&](std::size_t first, std::size_t count, bool holds) {
    std::string_view const gram(base + gram_starts_[first],
                                gram_starts_[first + count] - gram_starts_[first]);
    emit_gram(
        gram,
        out_.locates ? Span{gram_from_[first].begin, gram_from_[first + count - 1].end} : Span{},
        holds);
  };
  for (std::size_t i = 0; i + 1 < n; ++i) {
    if (role_ == Role::kDocument) emit(i, 1, true);
    emit(i, 2, false);
  }
  if (role_ == Role::kDocument || n == 1) return emit(n - 1, 1, false);
  look_up_slices();
  out_.items.push_back(RawBatch::kGap);  // the last character's position, as documents have it
  if (out_.locates) out_.spans.emplace_back();
}

void Splitter::split_unicode(std::string_view text) {
  text_begin_ = text.data();
  text_end_ = text.data() + text.size();
  for (char const* at = text_begin_; at < text_end_;) {
    if (byte_at(at) < 0x80) {
      if (!kAsciiAlnum[byte_at(at)]) {
        ++at;
        continue;
      }
    } else {
      CodePoint const c = decode_utf8(at, text_end_);
      int const group = dense_group(flags_[c.value]);
      if (group != 0 && group != kEmoji) {
        at = take_dense(at, group);
        continue;
      }
      if (group == 0 && (flags_[c.value] & kLetter) == 0) {
        char const* const base = c.value == kKeycap ? keycap_base(at) : nullptr;
        at += c.size;
        if (base == nullptr) continue;
        at = base;
      }
    }
    char const* end = chunk_end(at);
    if (end == at) end = emoji_end(at);
    emit_slice(at, end);
    at = end;
  }
  look_up_slices();
}

}  // namespace

void split(std::span<std::string_view const> texts, Preset preset, Role role, RawBatch& out) {
  out.items.clear();
  out.offsets.assign(1, 0);
  out.spans.clear();
  Splitter splitter(role, out);
  RunRules const rules = rules_of(preset);
  for (std::string_view const text : texts) {
    std::size_t const first = out.spans.size();
    if (preset == Preset::kUnicode) {
      splitter.split_unicode(text);
    } else if (may_compose(text)) {
      splitter.split_runs(splitter.compose(text, preset), rules);
      if (out.locates) splitter.to_source(text, preset, first);
    } else {
      splitter.split_runs(text, rules);
    }
    out.offsets.push_back(out.items.size());
  }
}

}  // namespace hyrecall::text
