// How often a document holds each of some terms, against the column's own count.
#include <algorithm>
#include <span>
#include <vector>

#include "engine/lexical/term_counts.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

TEST(lexical_counts_of_a_row_are_those_of_its_tokens) {
  Rng rng(9);
  struct Size {
    std::size_t n_rows;
    int n_words;
  };
  // Numbers of one, two and three bytes.
  for (Size const size : {Size{300, 60}, Size{300, 2'000}, Size{10'000, 100'000}}) {
    Documents const documents = random_documents(rng, size.n_rows, 3, size.n_words);
    auto const column = lexical_of(documents);
    std::vector<TermId> terms{kNone32};
    for (std::size_t i = 0; i < std::min<std::size_t>(column->n_terms(), 24); ++i) {
      auto const term = static_cast<TermId>(rng.below(column->n_terms()));
      if (std::find(terms.begin(), terms.end(), term) == terms.end()) terms.push_back(term);
    }
    TermCounts counts;
    CHECK(counts.begin(*column, terms));
    for (Row row = 0; row < documents.size(); ++row) {
      std::span<std::uint32_t const> const found = counts.count(row);
      CHECK_EQ(found[0], 0u);
      for (std::size_t place = 1; place < terms.size(); ++place)
        CHECK_EQ(found[place], column->term_freq(row, terms[place]));
    }
  }
}

// Terms of one to five bytes, and distances of as many; rows that end in the column's last bytes.
TEST(lexical_counts_read_numbers_of_every_length) {
  Rng rng(11);
  std::vector<TermId> const terms{5,         126,       127,         16'382,      16'383,
                                  2'097'150, 2'097'151, 268'435'454, 268'435'455, 4'000'000'000};
  for (int round = 0; round < 200; ++round) {
    std::vector<std::uint8_t> bytes;
    std::vector<std::uint64_t> offsets{0};
    for (int row = 0; row < 12; ++row) {
      std::uint32_t position = kBeforeFirst;
      for (std::size_t n = rng.below(std::size_t{5}); n > 0; --n) {
        std::uint32_t const step = rng.below(3u) == 0 ? 1u << rng.below(29u) : rng.below(2u);
        TermId const term = terms[rng.below(terms.size())] + rng.below(2u);
        std::uint8_t token[kMostTokenBytes];
        std::uint8_t const* const end = put_token(
            token, term, position + std::max(step, position == kBeforeFirst ? 1u : 0u), position);
        bytes.insert(bytes.end(), static_cast<std::uint8_t const*>(token), end);
      }
      offsets.push_back(bytes.size());
    }
    LexicalColumn::Parts parts;
    parts.doc_lengths = std::vector<std::uint32_t>(12, 4u);
    parts.forward_offsets = NarrowOffsets(offsets);
    parts.forward_bytes = std::move(bytes);
    LexicalColumn const column(std::move(parts));
    TermCounts counts;
    CHECK(counts.begin(column, terms));
    for (Row row = 0; row < 12; ++row) {
      std::span<std::uint32_t const> const found = counts.count(row);
      for (std::size_t place = 0; place < terms.size(); ++place)
        CHECK_EQ(found[place], column.term_freq(row, terms[place]));
    }
  }
}

TEST(lexical_counts_of_more_terms_than_fit_are_refused) {
  Rng rng(10);
  auto const column = lexical_of(random_documents(rng, 300, 3, 3'000));
  std::vector<TermId> terms(400);
  for (TermId term = 0; term < terms.size(); ++term) terms[term] = term;
  CHECK(!TermCounts().begin(*column, terms));
}

}  // namespace
}  // namespace hyrecall::testing
