// Postings of many rows: laid out alike by any number of threads, however the shares are cut.
#include <algorithm>
#include <string>

#include "engine/lexical/forward_rows.hpp"
#include "engine/lexical/posting_layout.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"
#include "native/heap.hpp"
#include "text/string_table.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::size_t kRows = 140'000;  // four shares of rows, and a part of a tile
constexpr std::uint32_t kTerms = 60'001;

// Documents of up to four words, some more than once, and some documents without a text.
LexicalColumn::Parts unlaid_parts() {
  Rng rng(23);
  text::StringTable terms;
  for (std::uint32_t term = 0; term < kTerms; ++term) terms.add("w" + std::to_string(term));
  TokenRows rows;
  for (std::size_t row = 0; row < kRows; ++row) {
    std::size_t const n = rng.below(5);
    for (std::size_t i = 0; i < n; ++i) {
      auto const term = static_cast<TermId>(rng.below(rng.below(2) == 0 ? 3 : kTerms));
      std::size_t const times = rng.below(50) == 0 ? 40 : 1;  // more than a posting holds
      for (std::size_t t = 0; t < times; ++t) rows.add_token(term, static_cast<std::uint32_t>(i));
    }
    rows.end_row(n == 0 ? kNoText : static_cast<std::uint32_t>(n));
  }
  ForwardRows encoded;
  encoded.encode(rows);
  LexicalColumn::Parts parts;
  parts.name = "text";
  parts.doc_lengths = std::move(rows.lengths);
  parts.terms = std::move(terms).take();
  parts.forward_offsets.push_back(0);
  for (std::uint64_t const end : encoded.ends()) parts.forward_offsets.push_back(end);
  parts.forward_bytes = std::vector<std::uint8_t>(encoded.bytes().begin(), encoded.bytes().end());
  return parts;
}

template <typename T>
bool equal(Buffer<T> const& a, Buffer<T> const& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end());
}

TEST(postings_are_laid_out_alike_however_the_shares_are_cut) {
  LexicalColumn::Parts alone = unlaid_parts();
  lay_out_postings(alone, 1);
  CHECK(alone.escapes.size() > 100);
  struct Cut {
    int threads;
    std::size_t vocabulary_bytes;  // 0: two parts of the rows at most
  };
  for (Cut const cut : {Cut{2, 1 << 26}, Cut{4, 1 << 26}, Cut{4, 0}, Cut{3, 0}, Cut{12, 0}}) {
    LexicalColumn::Parts many = unlaid_parts();
    lay_out_postings(many, cut.threads, cut.vocabulary_bytes);
    CHECK_EQ(many.posting_width, alone.posting_width);
    CHECK(equal(many.posting_offsets, alone.posting_offsets));
    CHECK(equal(many.postings, alone.postings));
    CHECK(equal(many.run_offsets, alone.run_offsets));
    CHECK(std::ranges::equal(many.runs, alone.runs, [](PostingRun a, PostingRun b) {
      return a.tile == b.tile && a.begin == b.begin;
    }));
    CHECK(equal(many.escape_offsets, alone.escape_offsets));
    CHECK(std::ranges::equal(many.escapes, alone.escapes, [](PostingEscape a, PostingEscape b) {
      return a.row == b.row && a.term_freq == b.term_freq;
    }));
  }
}

TEST(a_large_vocabulary_is_not_held_once_a_thread) {
  if (!heap_is_counted()) return;
  auto const bytes_with = [](int threads, std::size_t vocabulary_bytes) {
    LexicalColumn::Parts parts = unlaid_parts();
    HeapUse const before = heap_use();
    lay_out_postings(parts, threads, vocabulary_bytes);
    return (heap_use() - before).bytes;
  };
  std::uint64_t const places = 24ull * kTerms;  // of one part of the rows
  CHECK(bytes_with(4, 0) <= bytes_with(2, 0) + places / 2);
  CHECK(bytes_with(4, 1 << 26) >= bytes_with(2, 1 << 26) + places);  // the test can tell
}

}  // namespace
}  // namespace hyrecall::testing
