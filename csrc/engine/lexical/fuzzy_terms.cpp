#include "engine/lexical/fuzzy_terms.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "core/interrupt.hpp"
#include "text/utf8.hpp"

namespace hyrecall {
namespace {

std::u32string code_points_of(std::string_view text) {
  std::u32string out;
  char const* const end = text.data() + text.size();
  for (char const* at = text.data(); at < end;) {
    text::CodePoint const one = text::decode_utf8(at, end);
    out.push_back(one.value);
    at += one.size;
  }
  return out;
}

// Distances of a beginning of a term to the beginnings of the word whose lengths differ from its
// own by at most the number of edits; others are farther. A distance above the edits is edits + 1.
using Distances = std::array<std::uint8_t, 2 * kMostEdits + 1>;

}  // namespace

// The distances of all beginnings of a term, one code point after the other.
class Beginnings {
 public:
  Beginnings(std::string_view word, std::uint32_t edits)
      : word_(code_points_of(word)), edits_(edits), far_(static_cast<std::uint8_t>(edits + 1)) {
    Distances first{};
    for (std::uint32_t k = 0; k < width(); ++k) {
      std::int64_t const j = place(0, k);
      first[k] = j < 0 || j > size() ? far_ : static_cast<std::uint8_t>(j);
    }
    rows_.push_back({first, 0, 0});
  }

  std::size_t n_bytes() const { return rows_.back().end; }
  // Whether a term of so many bytes may be near enough: a code point has one to four.
  bool may_end_at(std::size_t n_bytes) const {
    return n_bytes + edits_ >= word_.size() && n_bytes <= 4 * (word_.size() + edits_);
  }
  // Goes back to the longest beginning of at most so many bytes.
  void cut(std::size_t n_bytes) {
    while (rows_.back().end > n_bytes) rows_.pop_back();
  }
  // Returns whether a longer term may be near enough.
  bool add(text::CodePoint next) {
    std::size_t const length = rows_.size();
    Row const& before = rows_.back();
    Distances own{};
    std::uint8_t least = far_;
    for (std::uint32_t k = 0; k < width(); ++k) {
      own[k] = far_;
      std::int64_t const j = place(length, k);
      if (j < 0 || j > size()) continue;
      std::uint32_t best =
          k + 1 < width() ? before.distances[k + 1] + 1u : far_;  // not in the word
      if (j == 0) best = static_cast<std::uint32_t>(length);
      if (k > 0) best = std::min(best, own[k - 1] + 1u);  // not in the term
      if (j > 0) {
        char32_t const wanted = word_[static_cast<std::size_t>(j) - 1];
        best = std::min(best, before.distances[k] + (wanted == next.value ? 0u : 1u));
        if (j > 1 && length > 1 && wanted == before.value &&
            word_[static_cast<std::size_t>(j) - 2] == next.value) {
          best = std::min(best, rows_[length - 2].distances[k] + 1u);  // two that are swapped
        }
      }
      own[k] = static_cast<std::uint8_t>(std::min<std::uint32_t>(best, far_));
      least = std::min(least, own[k]);
    }
    rows_.push_back({own, before.end + next.size, next.value});
    return least < far_;
  }
  // Whether the beginning itself is near enough.
  bool is_near() const {
    std::int64_t const k = size() - static_cast<std::int64_t>(rows_.size() - 1) + edits_;
    return k >= 0 && k < width() && rows_.back().distances[static_cast<std::size_t>(k)] < far_;
  }

 private:
  struct Row {
    Distances distances;
    std::size_t end;  // bytes of the term
    char32_t value;   // its last code point
  };

  std::uint32_t width() const { return 2 * edits_ + 1; }
  std::int64_t size() const { return static_cast<std::int64_t>(word_.size()); }
  // The length of the word's beginning that entry k of a row speaks of.
  std::int64_t place(std::size_t length, std::uint32_t k) const {
    return static_cast<std::int64_t>(length) + k - edits_;
  }

  std::u32string word_;
  std::uint32_t edits_;
  std::uint8_t far_;
  std::vector<Row> rows_;  // by length
};

// Walks the sorted terms. What a term shares with the one before is known already, and the terms
// that share a beginning from which none is near are passed over.
std::vector<TermId> terms_within(LexicalColumn const& column, std::string_view word,
                                 std::uint32_t edits) {
  std::span<TermId const> const sorted = column.with_prefix("");
  Strings const& terms = column.parts().terms;
  std::vector<TermId> out;
  Beginnings known(word, edits);
  std::string_view before;
  SteadyPoll poll;
  for (std::size_t i = 0; i < sorted.size();) {
    poll.step();
    std::string_view const term = terms[sorted[i]];
    auto const shared =
        std::mismatch(before.begin(), before.end(), term.begin(), term.end()).second;
    known.cut(static_cast<std::size_t>(shared - term.begin()));
    before = term;
    bool may_go_on = true;
    while (may_go_on && known.n_bytes() < term.size()) {
      may_go_on =
          known.add(text::decode_utf8(term.data() + known.n_bytes(), term.data() + term.size()));
    }
    if (may_go_on) {
      if (known.is_near()) out.push_back(sorted[i]);
      ++i;
      continue;
    }
    std::string_view const beginning = term.substr(0, known.n_bytes());
    std::size_t step = 1;
    while (i + step < sorted.size() && terms[sorted[i + step]].starts_with(beginning)) {
      i += step;
      step *= 2;
    }
    auto const end =
        sorted.begin() + static_cast<std::ptrdiff_t>(std::min(i + step, sorted.size()));
    auto const next =
        std::partition_point(sorted.begin() + static_cast<std::ptrdiff_t>(i), end,
                             [&](TermId one) { return terms[one].starts_with(beginning); });
    i = static_cast<std::size_t>(next - sorted.begin());
  }
  return out;
}

NearWord::NearWord(std::string_view word, std::uint32_t edits)
    : known_(std::make_unique<Beginnings>(word, edits)) {}
NearWord::~NearWord() = default;
NearWord::NearWord(NearWord&&) noexcept = default;

bool NearWord::is_near(std::string_view term) const {
  if (!known_->may_end_at(term.size())) return false;
  known_->cut(0);
  while (known_->n_bytes() < term.size()) {
    if (!known_->add(text::decode_utf8(term.data() + known_->n_bytes(), term.data() + term.size())))
      return false;
  }
  return known_->is_near();
}

}  // namespace hyrecall
