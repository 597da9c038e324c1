// How often each row holds a frequent term, at two bits a row. Looking up one row is faster than
// searching it in a list of postings.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/lexical/posting_list.hpp"

namespace hyrecall {

// The frequencies of one term: 0, 1, 2, or 3 for all above.
class FrequencyBits {
 public:
  static constexpr std::uint32_t kMost = 3;

  FrequencyBits(PostingList const& list, std::size_t n_rows);

  std::uint32_t operator[](Row row) const { return bytes_[row / 4] >> (row % 4 * 2) & kMost; }
  std::size_t bytes() const { return bytes_.size(); }

 private:
  std::vector<std::uint8_t> bytes_;
};

// The bits of a column's frequent terms, each made on first use. Any thread may use them: two may
// make the same bits, and the first stays. There is no lock, since a fork may happen while it is
// held.
class FrequentTerms {
 public:
  FrequentTerms() = default;
  ~FrequentTerms();
  FrequentTerms(FrequentTerms const&) = delete;
  FrequentTerms& operator=(FrequentTerms const&) = delete;

  // Whether a term with so many postings is worth its bits: they take at most two thirds of the
  // postings' memory, and a column of few rows is scanned fast enough without them.
  static bool pays(std::size_t n_postings, std::size_t n_rows) {
    return n_rows >= 4 * std::size_t{kDocTileRows} && n_postings >= n_rows / 8;
  }
  FrequencyBits const& of(TermId term, PostingList const& list, std::size_t n_rows) const;
  std::size_t bytes() const;

 private:
  struct Entry {
    TermId term;
    Entry const* next;
    FrequencyBits bits;
  };

  mutable std::array<std::atomic<Entry const*>, 32> heads_{};  // by term; owned
};

}  // namespace hyrecall
