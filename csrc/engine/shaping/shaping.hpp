// What happens to the fused lists, a stage at a time and a whole batch at once. Every function
// takes the lists of all queries back to back, each in its order, and depends on each query's list
// alone.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/shaping_math.hpp"
#include "engine/dense/column.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

// The candidates of a batch: query q has the entries [offsets[q], offsets[q + 1]).
struct FusedListsView {
  std::span<std::int64_t const> offsets;  // [n_queries + 1]
  std::span<double const> scores;         // [n], what the stage before handed on
  std::span<std::uint32_t const> segment;
  std::span<Row const> row;

  std::size_t n_queries() const { return offsets.size() - 1; }
};

// Entries in their new order: indices into the lists, query by query.
struct Selected {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::int64_t> entries;
};

// Orders each query's entries by (score desc, ties[0] asc, ties[1] asc, ..., place asc).
Selected order_lists(FusedListsView const& lists,
                     std::span<std::span<std::int64_t const> const> ties, int threads);

struct DedupParams {
  std::size_t column;                        // of Segment::Parts::dense
  double threshold;                          // of the cosine, strict
  bool unit = false;                         // the threshold is one of (1 + cosine) / 2
  std::span<std::int64_t const> preference;  // [n], the least is kept; empty: all alike
};
struct Deduped {
  Selected kept;                         // survivors, in the order they had
  std::vector<std::int64_t> duplicates;  // per survivor, how many others it stands for
  std::vector<std::int64_t> kept_for;    // [n], which entry stays of each entry's cluster
};
// Collapses near-duplicates: an entry joins the first cluster one of whose members it is closer to
// than the threshold, else founds one. Of a cluster the entry with the least (preference, place)
// stays. An entry without a vector is alone.
Deduped dedup_lists(Snapshot const& snapshot, FusedListsView const& lists,
                    DedupParams const& params, int threads);

struct DiversifyParams {
  bool use_vectors = true;  // false: similarity is 0 throughout (a budget alone)
  std::size_t column = 0;   // of Segment::Parts::dense
  double relevance_weight = 1.0;
  RelevanceScale scale = RelevanceScale::kMax;
  std::size_t n_wanted = 0;               // per query
  std::span<std::int64_t const> tokens;   // [n], >= 0; empty: no budget
  std::span<std::int64_t const> budgets;  // [n_queries]; below 1 = none for that query
};
struct Diversified {
  Selected chosen;
  std::vector<double> value;          // per chosen, at the time it was
  std::vector<double> relevance;      // per chosen, scaled
  std::vector<double> similarity;     // per chosen, to the nearest chosen before; 0 for the first
  std::vector<std::int64_t> nearest;  // per chosen, that entry; -1: none
};
// Greedy maximal marginal relevance: the first entry, then again and again the one of largest value
// (ties: the earlier) among those that fit the budget. The first is chosen whatever it costs.
Diversified diversify_lists(Snapshot const& snapshot, FusedListsView const& lists,
                            DiversifyParams const& params, int threads);

// Canonical cosine of two rows, the first as query; 0 if either has no vector.
float row_cosine(DenseColumn const& query_column, Row query_row, DenseColumn const& column,
                 Row row);

}  // namespace hyrecall
