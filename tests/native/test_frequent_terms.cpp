// Bits of frequent terms are those of the lists, and drop no row that reaches a threshold.
#include <algorithm>
#include <numeric>
#include <thread>
#include <vector>

#include "engine/lexical/partial_rows.hpp"
#include "native/check.hpp"
#include "native/corpus.hpp"

namespace hyrecall::testing {
namespace {

constexpr std::size_t kRows = 5 * kDocTileRows;

// Words of which a few are in most rows, and some in hardly any; runs of one word now and then. All
// texts are equally long, so that no bound is higher than it need be.
Documents frequent_documents(std::uint64_t seed) {
  Rng rng(seed);
  Documents out = random_documents(rng, kRows, 1, 40);
  for (auto& text : out.texts) {
    if (!text) continue;
    auto n_words = static_cast<std::size_t>(std::ranges::count(*text, 'w'));
    std::string const word = " w" + std::to_string(rng.below(6));
    for (std::size_t n = rng.below(20) == 0 ? rng.below(std::size_t{12}) : 0; n > 0; --n, ++n_words)
      *text += word;
    for (; n_words < 24; ++n_words) *text += " rest";
  }
  return out;
}

TEST(frequent_terms_have_the_frequencies_of_their_lists) {
  auto const column = lexical_of(frequent_documents(31));
  std::size_t n_frequent = 0;
  for (TermId term = 0; term < column->n_terms(); ++term) {
    FrequencyBits const* const bits = column->frequencies_of(term);
    PostingList const list = column->list_of(term);
    CHECK_EQ(bits != nullptr, list.size >= kRows / 8);
    if (bits == nullptr) continue;
    n_frequent += 1;
    for (Row row = 0; row < kRows; ++row)
      CHECK_EQ((*bits)[row], std::min(list.freq_of(row), FrequencyBits::kMost));
    CHECK(bits == column->frequencies_of(term));  // made once
  }
  CHECK(n_frequent > 5);
  CHECK(n_frequent < column->n_terms());
}

TEST(frequent_terms_of_a_small_column_have_no_bits) {
  Rng rng(32);
  auto const column = lexical_of(random_documents(rng, 4 * kDocTileRows - 1, 1, 3));
  for (TermId term = 0; term < column->n_terms(); ++term)
    CHECK(column->frequencies_of(term) == nullptr);
}

TEST(frequent_terms_are_made_once_by_many_threads_and_counted) {
  auto const column = lexical_of(frequent_documents(33));
  std::size_t const before = column->bytes();
  std::vector<std::vector<FrequencyBits const*>> found(4);
  std::vector<std::thread> threads;
  for (auto& mine : found) {
    threads.emplace_back([&] {
      for (TermId term = 0; term < column->n_terms(); ++term)
        mine.push_back(column->frequencies_of(term));
    });
  }
  for (auto& thread : threads) thread.join();
  for (auto const& mine : found) CHECK(mine == found[0]);
  auto const n = static_cast<std::size_t>(
      std::ranges::count_if(found[0], [](auto const* bits) { return bits != nullptr; }));
  CHECK(column->bytes() >= before + n * kRows / 4);
  CHECK(column->bytes() <= before + n * (kRows / 4 + 100));
}

LexicalQuery words_of(std::size_t n, double boost) {
  LexicalQuery out;
  for (std::size_t i = 0; i < n; ++i)
    out.leaves.push_back({.kind = Leaf::Kind::kTerm,
                          .terms = {"w" + std::to_string(i)},
                          .offsets = {},
                          .slop = 0,
                          .multiplicity = boost});
  return out;
}

struct Tally {
  std::size_t n_narrowed = 0;  // rows that narrow() took out
  std::size_t n_lost = 0;      // rows among them that reach the threshold
};

// Bounds are those of a query whose words weigh `too_low` times as much.
Tally narrow_rows(Bm25Variant variant, double too_low) {
  auto const segment = segment_of(frequent_documents(34));
  LexicalColumn const& column = *segment->p.lexical[0];
  std::size_t const n_words = 12;
  QueryStatistics statistics{.n_docs = kRows, .total_length = 24 * kRows, .doc_freqs = {}};
  std::vector<LeafPostings> postings(n_words);
  std::vector<LeafCursor> leaves;
  for (std::size_t i = 0; i < n_words; ++i) {
    TermId const term = column.find("w" + std::to_string(i));
    postings[i].term = term;
    postings[i].list = column.list_of(term);
    postings[i].end = postings[i].list.size;
    statistics.doc_freqs.push_back(postings[i].list.size);
    leaves.push_back(LeafCursor{&postings[i], i});
  }
  Bm25 const params{variant, 1.2, 0.75, 0.5};
  LexicalQuery const asked = words_of(n_words, 1.0), told = words_of(n_words, too_low);
  Bm25Query const query(params, asked, statistics), low(params, told, statistics);
  CHECK(query.is_positive());
  std::vector<float> greatest;
  for (std::size_t i = 0; i < n_words; ++i)
    greatest.push_back(greatest_impact(low, i, postings[i].list, column.min_length()));
  std::vector<Row> rows(kRows);
  std::iota(rows.begin(), rows.end(), Row{0});
  std::vector<float> scores(kRows);
  score_lexical_rows(*segment, 0, query, postings, rows, scores);
  std::vector<float> sorted = scores;
  std::ranges::sort(sorted, std::greater{});

  SkippedLeaves skipped;
  skipped.begin(greatest);
  PartialRows partial;
  partial.begin(*segment, 0, low, postings, leaves, greatest);
  Tally out;
  for (std::size_t rank = 1; rank < kRows / 8; rank *= 2) {
    float const threshold = sorted[rank];
    for (int i = 0; i < 30; ++i) skipped.tell({.n_added = 1'000'000});  // leave more out
    if (!skipped.choose(threshold)) continue;
    partial.clear();
    std::vector<bool> is_left(kRows, false);
    for (Row const row : rows) {
      if (!column.has(row)) continue;
      float sum = 0.0f;
      for (std::size_t i = 0; i < n_words; ++i) {
        std::uint32_t const freq = skipped.skips(i) ? 0 : postings[i].freq_of(row);
        if (freq > 0)
          sum +=
              query.impact(i, static_cast<float>(freq), query.length_norm(column.doc_length(row)));
      }
      partial.add(row, sum);
    }
    std::size_t const n_before = partial.rows().size();
    CHECK(partial.narrow(skipped) > 0);
    out.n_narrowed += n_before - partial.rows().size();
    for (Row const row : partial.rows()) is_left[row] = true;
    for (Row const row : rows)
      out.n_lost += column.has(row) && scores[row] >= threshold && !is_left[row] ? 1 : 0;
  }
  return out;
}

TEST(frequent_terms_drop_no_row_that_reaches_the_threshold) {
  for (Bm25Variant const variant : {Bm25Variant::kLucene, Bm25Variant::kPlus, Bm25Variant::kLong}) {
    Tally const found = narrow_rows(variant, 1.0);
    CHECK(found.n_narrowed > 10'000);
    CHECK_EQ(found.n_lost, std::size_t{0});
  }
}

TEST(frequent_terms_with_bounds_too_low_are_caught) {
  CHECK(narrow_rows(Bm25Variant::kLucene, 0.99).n_lost > 0);
}

}  // namespace
}  // namespace hyrecall::testing
