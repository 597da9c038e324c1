// Which rows a sum without some leaves may drop: none that reaches the threshold.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "engine/lexical/posting_list.hpp"
#include "engine/lexical/skipped_leaves.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

// A row's impacts by leaf, 0 where it does not hold it, near the greatest ones as often as not.
std::vector<float> random_impacts(Rng& rng, std::vector<float> const& greatest) {
  std::vector<float> out(greatest.size(), 0.0f);
  for (std::size_t leaf = 0; leaf < out.size(); ++leaf) {
    if (rng.below(3u) == 0) continue;
    double const share = rng.below(2u) == 0 ? 1.0 : rng.unit();
    out[leaf] = static_cast<float>(greatest[leaf] * share);
  }
  return out;
}

float sum_of(std::vector<float> const& impacts, auto const& is_added) {
  float out = 0.0f;
  for (std::size_t leaf = 0; leaf < impacts.size(); ++leaf)
    if (is_added(leaf)) out += impacts[leaf];
  return out;
}

// Whether a row that reaches the threshold is dropped.
bool drops(SkippedLeaves const& skipped, std::vector<float> const& impacts, float threshold) {
  if (sum_of(impacts, [](std::size_t) { return true; }) < threshold) return false;
  return sum_of(impacts, [&](std::size_t leaf) { return !skipped.skips(leaf); }) < skipped.cut();
}

struct Tally {
  std::size_t n_skipping = 0;  // choices that leave leaves out
  std::size_t n_dropped = 0;   // rows that must not be
};

// greatest x too_low is what the engine is told.
Tally drop_rows(std::uint64_t seed, float too_low) {
  Rng rng(seed);
  Tally out;
  for (int round = 0; round < 3000; ++round) {
    std::size_t const n = 2 + rng.below(std::size_t{30});
    std::vector<float> greatest(n), told(n);
    for (std::size_t leaf = 0; leaf < n; ++leaf) {
      greatest[leaf] = static_cast<float>(std::exp2(8.0 * rng.unit() - 6.0));
      told[leaf] = greatest[leaf] * too_low;
    }
    SkippedLeaves skipped;
    skipped.begin(told);
    for (int row = 0; row < 20; ++row) {
      std::vector<float> const impacts = random_impacts(rng, greatest);
      // The row's own score: a bound that is a rounding too low shows here.
      float const threshold = sum_of(impacts, [](std::size_t) { return true; });
      if (threshold <= 0.0f || !skipped.choose(threshold)) continue;
      out.n_skipping += 1;
      out.n_dropped += drops(skipped, impacts, threshold) ? 1 : 0;
      skipped.tell({.n_added = rng.below(std::size_t{10'000}),
                    .n_asked = rng.below(std::size_t{100}),
                    .n_rows = rng.below(std::size_t{30})});
    }
  }
  return out;
}

TEST(skipped_leaves_drop_no_row_that_reaches_the_threshold) {
  Tally const found = drop_rows(81, 1.0f);
  CHECK(found.n_skipping > 10'000);
  CHECK_EQ(found.n_dropped, std::size_t{0});
}

TEST(skipped_leaves_with_bounds_too_low_are_caught) {
  CHECK(drop_rows(81, 0.9f).n_dropped > 0);
  CHECK(drop_rows(81, 1.0f - 0x1p-10f).n_dropped > 0);
}

TEST(skipped_leaves_never_include_a_leaf_without_a_bound) {
  SkippedLeaves skipped;
  float const nan = std::nanf("");
  skipped.begin(std::vector<float>{0.5f, INFINITY, nan});
  if (skipped.choose(100.0f)) {
    CHECK(!skipped.skips(1));
    CHECK(!skipped.skips(2));
  }
}

// Equal rows all reach the cut: scoring each costs more than adding what was left out.
TEST(skipped_leaves_tell_when_adding_all_postings_costs_less) {
  SkippedLeaves skipped;
  skipped.begin(std::vector<float>{0.000001f, 5.0f});
  CHECK(skipped.choose(5.0f));
  auto const work = [](std::size_t n_rows) {
    return SkippedLeaves::Work{.n_added = 3'000, .n_left_out = 8'000, .n_rows = n_rows};
  };
  CHECK(skipped.pays(work(10)));
  CHECK(!skipped.pays(work(3'000)));
  int n_tiles = 1;
  for (; skipped.choose(5.0f); ++n_tiles) CHECK(!skipped.pays(work(3'000)));
  CHECK(n_tiles <= 10);  // of a million rows some 120
}

LexicalQuery one_word(double boost) {
  LexicalQuery out;
  out.leaves.push_back(
      {.kind = Leaf::Kind::kTerm, .terms = {"a"}, .offsets = {}, .slop = 0, .multiplicity = boost});
  return out;
}

// Of lists with one document, which has an escape where it is long or its frequency high.
void check_bounds(Bm25Query const& query, std::uint32_t width, std::uint32_t min_length) {
  for (std::uint32_t freq = 1; freq != 0; freq <<= 1) {
    for (std::uint32_t const length : {std::max(1u, min_length), std::max(freq, 9u)}) {
      OwnPostings own{PostingFormat(width)};
      own.append(3, freq, length);
      float const impact = query.impact(0, static_cast<float>(freq), query.length_norm(length));
      CHECK(impact <= greatest_impact(query, 0, own.list(), min_length));
    }
  }
}

TEST(skipped_leaves_no_document_adds_more_than_the_greatest_impact) {
  for (int i = 0; i < 7 * 4 * 3 * 3 * 2; ++i) {
    auto const variant = static_cast<Bm25Variant>(i % 7);
    double const k1 = std::vector{0.0, 0.01, 1.2, 1000.0}[i / 7 % 4];
    double const b = std::vector{0.0, 0.4, 1.0}[i / 28 % 3];
    LexicalQuery const query = one_word(std::vector{0x1p-20, 1.0, 0x1p20}[i / 84 % 3]);
    std::int64_t const total = i / 252 == 0 ? 10 : 50'000'000'000;
    Bm25Query const bm25({variant, k1, b, 0.5}, query, {1000, total, {300}});
    CHECK(bm25.is_positive());
    for (std::uint32_t const width : {PostingFormat::kCompact, PostingFormat::kWide})
      for (std::uint32_t const min_length : {0u, 1u, 7u}) check_bounds(bm25, width, min_length);
  }
}

}  // namespace
}  // namespace hyrecall::testing
