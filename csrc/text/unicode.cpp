#include "text/unicode.hpp"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "text/utf8.hpp"

namespace hyrecall::text {
namespace {

struct Range {
  char32_t first, last;
  std::uint32_t value;
};
struct Pair {
  char32_t from;
  std::uint32_t to;
};
struct Composition {
  char32_t base, mark, composed;
};

#include "text/unicode_tables.inc"

// Hangul syllables compose and decompose by arithmetic (Unicode 3.12).
constexpr char32_t kHangulBase = 0xAC00, kLeadBase = 0x1100, kVowelBase = 0x1161,
                   kTailBase = 0x11A7;
constexpr char32_t kLeads = 19, kVowels = 21, kTails = 28;

constexpr char32_t kAlef = 0x627, kHamzaAbove = 0x654;

template <std::size_t N>
Pair const* find_pair(Pair const (&table)[N], char32_t c) {
  Pair const* const row =
      std::lower_bound(table, table + N, c, [](Pair const& a, char32_t b) { return a.from < b; });
  return row != table + N && row->from == c ? row : nullptr;
}

int combining_class(char32_t c) {
  if ((flag_table()[c] & kMark) == 0) return 0;
  Range const* const row =
      std::lower_bound(std::begin(kCombiningClasses), std::end(kCombiningClasses), c,
                       [](Range const& a, char32_t b) { return a.last < b; });
  return row != std::end(kCombiningClasses) && row->first <= c ? static_cast<int>(row->value) : 0;
}

// 0 when the two do not compose.
char32_t compose_pair(char32_t base, char32_t next) {
  if (base - kLeadBase < kLeads && next - kVowelBase < kVowels)
    return kHangulBase + ((base - kLeadBase) * kVowels + (next - kVowelBase)) * kTails;
  if (base - kHangulBase < kLeads * kVowels * kTails && (base - kHangulBase) % kTails == 0 &&
      next - kTailBase - 1 < kTails - 1)
    return base + (next - kTailBase);
  auto const before = [](Composition const& a, Composition const& b) {
    return a.base != b.base ? a.base < b.base : a.mark < b.mark;
  };
  Composition const wanted{base, next, 0};
  Composition const* const row =
      std::lower_bound(std::begin(kCompositions), std::end(kCompositions), wanted, before);
  return row != std::end(kCompositions) && row->base == base && row->mark == next ? row->composed
                                                                                  : 0;
}

// By a table of (character, its place in a pool).
template <std::size_t N>
void decompose(char32_t c, Pair const (&index)[N], char32_t const* pool, std::u32string& out) {
  if (c - kHangulBase < kLeads * kVowels * kTails) {
    char32_t const i = c - kHangulBase;
    out.push_back(kLeadBase + i / (kVowels * kTails));
    out.push_back(kVowelBase + i / kTails % kVowels);
    if (i % kTails != 0) out.push_back(kTailBase + i % kTails);
  } else if (Pair const* const row = find_pair(index, c)) {
    out.append(pool + row[0].to, pool + row[1].to);
  } else {
    out.push_back(c);
  }
}

// Canonical order: marks sort by class between starters, stably.
void order_marks(std::u32string& s) {
  std::vector<std::pair<int, char32_t>> marks;
  for (std::size_t i = 0; i < s.size(); ++i) {
    marks.clear();
    for (std::size_t j = i; j < s.size(); ++j) {
      int const own_class = combining_class(s[j]);
      if (own_class == 0) break;
      marks.emplace_back(own_class, s[j]);
    }
    if (marks.size() > 1)
      std::stable_sort(marks.begin(), marks.end(),
                       [](auto const& a, auto const& b) { return a.first < b.first; });
    for (auto const& mark : marks) s[i++] = mark.second;
  }
}

void drop_accents(std::u32string& s) {
  std::uint16_t const* const flags = flag_table();
  bool folds = false, is_alef = false;
  std::erase_if(s, [&](char32_t c) {
    if ((flags[c] & kMark) != 0 && combining_class(c) != 0)
      return folds && (is_alef || c != kHamzaAbove);
    folds = (flags[c] & kFoldMarks) != 0;
    is_alef = c == kAlef;
    return false;
  });
}

// Canonical composition: a mark joins the last starter unless a mark of its class or higher stands
// between.
void compose(std::u32string& s) {
  std::size_t starter = std::u32string::npos;
  int last_class = -1;
  std::size_t kept = 0;
  for (char32_t const c : s) {
    int const own_class = combining_class(c);
    bool const reaches = starter != std::u32string::npos && last_class < own_class;
    char32_t const composed = reaches ? compose_pair(s[starter], c) : 0;
    if (composed != 0) {
      s[starter] = composed;
      continue;
    }
    if (own_class == 0) {
      starter = kept;
      last_class = -1;
    } else {
      last_class = own_class;
    }
    s[kept++] = c;
  }
  s.resize(kept);
}

// Whether nothing before the character can change what it becomes, or be changed by it.
template <std::size_t N>
bool begins_piece(char32_t c, Pair const (&index)[N], char32_t const* pool) {
  std::u32string made;
  decompose(c, index, pool, made);
  if (made.empty() || (flag_table()[made[0]] & kMark) != 0) return false;
  return made[0] - kVowelBase >= kVowels && made[0] - kTailBase >= kTails;
}

template <std::size_t N>
std::size_t piece(std::u32string_view text, Pair const (&index)[N], char32_t const* pool) {
  std::size_t n = 1;
  while (n < text.size() && !begins_piece(text[n], index, pool)) ++n;
  return n;
}

}  // namespace

std::size_t fold_piece(std::u32string_view text) {
  return piece(text, kFoldIndex, kFoldPool);
}

std::size_t canonical_piece(std::u32string_view text) {
  return piece(text, kCanonicalIndex, kCanonicalPool);
}

std::uint16_t const* flag_table() {
  static std::vector<std::uint16_t> const table = [] {
    std::vector<std::uint16_t> made(0x110000, 0);
    for (Range const& row : kFlagRanges)
      std::fill(made.begin() + row.first, made.begin() + row.last + 1,
                static_cast<std::uint16_t>(row.value));
    return made;
  }();
  return table.data();
}

char const* table_version() {
  return kTableVersion;
}

char32_t lower_of(char32_t c) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  Pair const* const row = find_pair(kLowerCase, c);
  return row != nullptr ? row->to : c;
}

char32_t fts5_fold_of(char32_t c, bool all_diacritics) {
  if (c < 0x80) return c >= 'A' && c <= 'Z' ? c + 32 : c;
  Pair const* row = all_diacritics ? find_pair(kFts5FoldMore, c) : nullptr;
  if (row == nullptr) row = find_pair(kFts5Fold, c);
  return row != nullptr ? row->to : c;
}

std::u32string fold_word(std::u32string_view word) {
  std::u32string folded;
  folded.reserve(word.size());
  for (char32_t const c : word) decompose(c, kFoldIndex, kFoldPool, folded);
  if (std::all_of(folded.begin(), folded.end(), [](char32_t c) { return c < 0x80; })) return folded;
  order_marks(folded);
  drop_accents(folded);
  compose(folded);
  return folded;
}

bool may_compose(std::string_view text) {
  std::uint16_t const* const flags = flag_table();
  for (char const *at = text.data(), *end = at + text.size(); at < end;) {
    if (static_cast<unsigned char>(*at) < 0x80) {
      ++at;
      continue;
    }
    CodePoint const c = decode_utf8(at, end);
    if ((flags[c.value] & kMayCompose) != 0) return true;
    at += c.size;
  }
  return false;
}

std::u32string canonical_form(std::u32string_view text) {
  std::u32string out;
  out.reserve(text.size());
  for (char32_t const c : text) decompose(c, kCanonicalIndex, kCanonicalPool, out);
  order_marks(out);
  compose(out);
  return out;
}

}  // namespace hyrecall::text
