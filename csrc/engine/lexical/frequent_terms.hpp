// How often each row holds a frequent term, at two bits a row: asked for one row at a time, where
// a list of postings would have to be searched.
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

// Those of a column, each made when it is first asked for. Any thread may ask: two may both make
// one, and the first stays. No lock, which a fork might find held.
class FrequentTerms {
 public:
  FrequentTerms() = default;
  ~FrequentTerms();
  FrequentTerms(FrequentTerms const&) = delete;
  FrequentTerms& operator=(FrequentTerms const&) = delete;

  // Whether a term of so many rows is worth its bits: they take at most two thirds of what its
  // postings do, and a column of few rows is scanned soon enough.
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
