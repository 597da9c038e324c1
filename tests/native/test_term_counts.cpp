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

TEST(lexical_counts_of_more_terms_than_fit_are_refused) {
  Rng rng(10);
  auto const column = lexical_of(random_documents(rng, 300, 3, 3'000));
  std::vector<TermId> terms(400);
  for (TermId term = 0; term < terms.size(); ++term) terms[term] = term;
  CHECK(!TermCounts().begin(*column, terms));
}

}  // namespace
}  // namespace hyrecall::testing
