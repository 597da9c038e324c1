// The shaping stages against plain definitions, on random lists.
#include <algorithm>
#include <cmath>

#include "core/formulas.hpp"
#include "engine/shaping/shaping.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

// A batch of lists over a world's documents.
struct FusedLists {
  std::vector<std::int64_t> offsets{0};
  std::vector<double> scores;
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;
  std::vector<Doc const*> docs;  // [n]

  FusedListsView view() const { return {offsets, scores, segment, row}; }
  std::size_t size() const { return scores.size(); }
  std::size_t n_queries() const { return offsets.size() - 1; }
  std::size_t begin(std::size_t q) const { return static_cast<std::size_t>(offsets[q]); }
  std::size_t end(std::size_t q) const { return static_cast<std::size_t>(offsets[q + 1]); }
};

FusedLists random_lists(Rng& rng, World const& world) {
  FusedLists out;
  for (std::size_t q = 0, n_queries = rng.below(std::size_t{6}); q < n_queries; ++q) {
    std::vector<std::size_t> places(world.docs.size());
    std::iota(places.begin(), places.end(), std::size_t{0});
    std::size_t const n = std::min(places.size(), rng.below(std::size_t{25}));
    for (std::size_t i = 0; i < n; ++i) {
      std::swap(places[i], places[i + rng.below(places.size() - i)]);
      Doc const& doc = world.docs[places[i]];
      out.docs.push_back(&doc);
      out.segment.push_back(doc.segment);
      out.row.push_back(doc.row);
      out.scores.push_back(static_cast<double>(rng.below(7)) * 0.3 - 0.6);
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.scores.size()));
  }
  return out;
}

std::vector<std::int64_t> random_ranks(Rng& rng, std::size_t n, std::int64_t below) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(rng.below(below));
  return out;
}

bool has_vector(Doc const& doc) {
  return std::any_of(doc.vector.begin(), doc.vector.end(), [](float x) { return x != 0.0f; });
}

// docs/scoring.md: 32 lanes, a fused multiply-add each, folded by halves.
template <typename T, typename Term>
T in_lanes(std::size_t n, Term const& term) {
  std::vector<T> lanes(32, T{0});
  for (std::size_t i = 0; i < n; ++i) lanes[i % 32] = term(i, lanes[i % 32]);
  for (std::size_t width : {16u, 8u, 4u, 2u, 1u}) {
    for (std::size_t j = 0; j < width; ++j) lanes[j] = lanes[j] + lanes[j + width];
  }
  return lanes[0];
}

float plain_inverse_norm(std::vector<float> const& x) {
  double const squares = in_lanes<double>(x.size(), [&](std::size_t i, double sum) {
    return sum + static_cast<double>(x[i]) * static_cast<double>(x[i]);
  });
  return static_cast<float>(1.0 / std::sqrt(squares));
}

float plain_cosine(Doc const& query, Doc const& row) {
  if (!has_vector(query) || !has_vector(row)) return 0.0f;
  float const dot = in_lanes<float>(row.vector.size(), [&](std::size_t i, float sum) {
    return std::fma(row.vector[i], query.vector[i], sum);
  });
  float const by_row = dot * plain_inverse_norm(row.vector);
  float const value = by_row * plain_inverse_norm(query.vector);
  return std::min(std::max(value, -1.0f), 1.0f);
}

WorldOptions random_options(Rng& rng) {
  WorldOptions options;
  options.max_rows = 40;
  options.dim = std::array{1u, 5u, 32u, 47u}[rng.below(std::size_t{4})];
  options.dtype = rng.below(3) == 0 ? DType::kBFloat16 : DType::kFloat32;
  return options;
}

TEST(shaping_row_cosine_is_the_canonical_cosine_of_any_two_rows) {
  Rng rng(31);
  for (int round = 0; round < 30; ++round) {
    World const world = random_world(rng, random_options(rng));
    auto const column = [&](Doc const& doc) -> DenseColumn const& {
      return *world.snapshot.segments[doc.segment]->segment().p.dense[0];
    };
    for (int pair = 0; pair < 100; ++pair) {
      Doc const& a = world.docs[rng.below(world.docs.size())];
      Doc const& b = world.docs[rng.below(world.docs.size())];
      CHECK_EQ(row_cosine(column(a), a.row, column(b), b.row), plain_cosine(a, b));
    }
  }
}

TEST(shaping_order_puts_an_entry_after_those_that_come_before_it) {
  Rng rng(32);
  for (int round = 0; round < 200; ++round) {
    World const world = random_world(rng, random_options(rng));
    FusedLists const lists = random_lists(rng, world);
    std::vector<std::vector<std::int64_t>> ties;
    for (std::size_t t = 0, n = rng.below(std::size_t{3}); t < n; ++t)
      ties.push_back(random_ranks(rng, lists.size(), 3));
    std::vector<std::span<std::int64_t const>> const spans(ties.begin(), ties.end());
    auto const comes_before = [&](std::size_t a, std::size_t b) {
      if (lists.scores[a] != lists.scores[b]) return lists.scores[a] > lists.scores[b];
      for (auto const& tie : ties) {
        if (tie[a] != tie[b]) return tie[a] < tie[b];
      }
      return a < b;
    };
    std::vector<std::int64_t> expected(lists.size());
    for (std::size_t q = 0; q < lists.n_queries(); ++q) {
      for (std::size_t i = lists.begin(q); i < lists.end(q); ++i) {
        std::size_t place = lists.begin(q);
        for (std::size_t j = lists.begin(q); j < lists.end(q); ++j) place += comes_before(j, i);
        expected[place] = static_cast<std::int64_t>(i);
      }
    }
    for (int threads : {1, 3}) {
      Selected const found = order_lists(lists.view(), spans, threads);
      CHECK(found.offsets == lists.offsets);
      CHECK(found.entries == expected);
    }
  }
}

TEST(shaping_dedup_keeps_one_entry_of_each_cluster) {
  Rng rng(33);
  std::size_t n_duplicates = 0;
  for (int round = 0; round < 300; ++round) {
    World const world = random_world(rng, random_options(rng));
    FusedLists const lists = random_lists(rng, world);
    bool const unit = rng.below(2) == 0;
    double threshold = std::array{0.98, 0.9, 0.5, 0.0, -0.5}[rng.below(std::size_t{5})];
    if (rng.below(2) == 0 && lists.size() > 0) {
      // The cosine of two entries themselves, which is not above it; the other way round may be.
      Doc const &a = *lists.docs[rng.below(lists.size())], &b = *lists.docs[0];
      double const cosine = plain_cosine(a, b);
      threshold = unit ? (1.0 + cosine) / 2.0 : cosine;
    }
    std::vector<std::int64_t> preference;
    if (rng.below(2) == 0) preference = random_ranks(rng, lists.size(), 3);
    DedupParams const params{0, threshold, unit, preference};
    std::vector<std::int64_t> offsets{0}, kept, duplicates;
    for (std::size_t q = 0; q < lists.n_queries(); ++q) {
      std::vector<std::vector<std::size_t>> clusters;
      for (std::size_t i = lists.begin(q); i < lists.end(q); ++i) {
        std::vector<std::size_t>* joined = nullptr;
        for (auto& cluster : clusters) {
          for (std::size_t member : cluster) {
            Doc const &a = *lists.docs[member], &b = *lists.docs[i];
            double const cosine = plain_cosine(a, b);
            bool const is_close = (unit ? (1.0 + cosine) / 2.0 : cosine) > threshold;
            if (has_vector(a) && has_vector(b) && is_close && joined == nullptr) joined = &cluster;
          }
        }
        if (joined != nullptr) {
          joined->push_back(i);
        } else {
          clusters.push_back({i});
        }
      }
      std::map<std::size_t, std::size_t> survivors;  // entry -> how many others
      for (auto const& cluster : clusters) {
        std::pair<std::int64_t, std::size_t> best{INT64_MAX, 0};
        for (std::size_t i : cluster)
          best = std::min(best, {preference.empty() ? 0 : preference[i], i});
        survivors[best.second] = cluster.size() - 1;
      }
      for (auto const& [entry, others] : survivors) {
        kept.push_back(static_cast<std::int64_t>(entry));
        duplicates.push_back(static_cast<std::int64_t>(others));
        n_duplicates += others;
      }
      offsets.push_back(static_cast<std::int64_t>(kept.size()));
    }
    for (int threads : {1, 3}) {
      Deduped const found = dedup_lists(world.snapshot, lists.view(), params, threads);
      CHECK(found.kept.offsets == offsets);
      CHECK(found.kept.entries == kept);
      CHECK(found.duplicates == duplicates);
    }
  }
  CHECK(n_duplicates > 1000);
}

struct Choice {
  std::size_t entry;
  double value, relevance, similarity;
  std::int64_t nearest;
};

// Greedy choice from one pool, everything computed anew at each step.
std::vector<Choice> plain_choice(FusedLists const& lists, std::size_t q,
                                 DiversifyParams const& params) {
  double low = INFINITY, high = -INFINITY;
  for (std::size_t i = lists.begin(q); i < lists.end(q); ++i) {
    low = std::min(low, lists.scores[i]);
    high = std::max(high, lists.scores[i]);
  }
  auto const relevance = [&](std::size_t i) {
    double const score = lists.scores[i];
    if (params.scale == RelevanceScale::kRaw) return score;
    if (params.scale == RelevanceScale::kMax) return high > 0.0 ? score / high : 0.0;
    return high > low ? (score - low) / (high - low) : 1.0;
  };
  bool const is_bounded = !params.tokens.empty() && params.budgets[q] >= 1;
  std::int64_t spent = 0;
  std::vector<Choice> chosen;
  while (chosen.size() < params.n_wanted) {
    std::optional<Choice> best;
    for (std::size_t i = lists.begin(q); i < lists.end(q); ++i) {
      if (chosen.empty() && best) break;  // the first of the list
      bool const taken = std::any_of(chosen.begin(), chosen.end(),
                                     [&](Choice const& earlier) { return earlier.entry == i; });
      bool const fits = !is_bounded || spent + params.tokens[i] <= params.budgets[q];
      if (taken || (!fits && !chosen.empty())) continue;
      Choice one{i, 0.0, relevance(i), 0.0, -1};
      for (Choice const& earlier : chosen) {
        if (!params.use_vectors) continue;
        double const cosine = plain_cosine(*lists.docs[earlier.entry], *lists.docs[i]);
        if (cosine > one.similarity) {
          one.similarity = cosine;
          one.nearest = static_cast<std::int64_t>(earlier.entry);
        }
      }
      double const w = params.relevance_weight;
      one.value = w * one.relevance - (1.0 - w) * one.similarity;
      if (!best || one.value > best->value) best = one;
    }
    if (!best) break;
    if (is_bounded) spent += params.tokens[best->entry];
    chosen.push_back(*best);
  }
  return chosen;
}

TEST(shaping_diversify_chooses_greedily_by_marginal_relevance_within_the_budget) {
  Rng rng(34);
  std::size_t n_near = 0, n_cut = 0;
  for (int round = 0; round < 300; ++round) {
    World const world = random_world(rng, random_options(rng));
    FusedLists const lists = random_lists(rng, world);
    DiversifyParams params;
    params.use_vectors = rng.below(4) != 0;
    params.relevance_weight = std::array{0.0, 0.3, 0.7, 1.0}[rng.below(std::size_t{4})];
    using enum RelevanceScale;
    params.scale = std::array{kRaw, kMax, kMinMax}[rng.below(std::size_t{3})];
    params.n_wanted = rng.below(std::size_t{30});
    std::vector<std::int64_t> tokens, budgets;
    if (rng.below(2) == 0) {
      tokens = random_ranks(rng, lists.size(), 9);
      budgets = random_ranks(rng, lists.n_queries(), 40);
    }
    params.tokens = tokens;
    params.budgets = budgets;
    for (int threads : {1, 3}) {
      Diversified const found = diversify_lists(world.snapshot, lists.view(), params, threads);
      CHECK_EQ(found.chosen.offsets.size(), lists.offsets.size());
      std::size_t at = 0;
      for (std::size_t q = 0; q < lists.n_queries(); ++q) {
        std::vector<Choice> const expected = plain_choice(lists, q, params);
        n_cut += expected.size() < std::min(params.n_wanted, lists.end(q) - lists.begin(q));
        CHECK_EQ(found.chosen.offsets[q + 1], static_cast<std::int64_t>(at + expected.size()));
        for (Choice const& one : expected) {
          CHECK_EQ(found.chosen.entries[at], static_cast<std::int64_t>(one.entry));
          CHECK_EQ(found.value[at], one.value);
          CHECK_EQ(found.relevance[at], one.relevance);
          CHECK_EQ(found.similarity[at], one.similarity);
          CHECK_EQ(found.nearest[at], one.nearest);
          n_near += one.nearest >= 0;
          ++at;
        }
      }
    }
  }
  CHECK(n_near > 1000);
  CHECK(n_cut > 100);  // the budget left some out
}

}  // namespace
}  // namespace hyrecall::testing
