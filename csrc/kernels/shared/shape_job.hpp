// The stages that compare the vectors of a batch's lists, on a device.
#pragma once

#include <cstdint>
#include <span>

#include "core/shaping_math.hpp"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kMostShaped = 4096;  // entries of a list

enum class ShapeStage : std::uint32_t { kDedup, kMmr };

// Query q has the entries [offsets[q], offsets[q + 1]), at most kMostShaped, each a row of a dense
// column. An entry's place counts from the first of its list.
struct ShapeJob {
  std::uint32_t n_queries;
  std::uint32_t dim;
  RowType row_type;
  DenseSegment const* segments;  // [n_segments]
  std::uint32_t const* offsets;  // [n_queries + 1]
  std::uint32_t const* segment;  // [n_entries]
  std::uint32_t const* row;      // [n_entries]

  // Of dedup.
  double threshold;
  std::uint32_t is_unit;           // the threshold is one of (1 + cosine) / 2
  std::int64_t const* preference;  // [n_entries] the least is kept; null: all alike
  std::uint32_t* cluster_of;       // [n_entries] made: place of the first entry of its cluster
  std::uint32_t* best_of;          // [n_entries] made: of a first entry, the place that is kept
  std::uint32_t* sizes;            // [n_entries] made: of a first entry, how many are its cluster
  std::uint32_t* kept_for;         // [n_entries] made: place of the entry that stays for it
  std::uint32_t* n_alike;          // [n_entries] made: of what stays its cluster's size, else 0

  // Of MMR.
  double relevance_weight;
  RelevanceScale scale;
  std::uint32_t n_wanted;        // a query
  double const* scores;          // [n_entries]
  std::int64_t const* tokens;    // [n_entries]; null: no budget
  std::int64_t const* budgets;   // [n_queries] below 1: none
  double* entry_relevance;       // [n_entries] made
  double* entry_similarity;      // [n_entries] made: to the nearest chosen, never below 0
  std::uint32_t* entry_nearest;  // [n_entries] made: that one's place; kNone32: none is similar
  // [n_entries] made: with how many of the chosen vectors it was compared; kNone32: it waits no
  // more.
  std::uint32_t* entry_compared;
  std::uint32_t* vectors;  // [n_queries, n_wanted] made: places of the chosen that have a vector
  std::uint32_t* counts;   // [n_queries] made: how many are chosen
  std::uint32_t* chosen;   // [n_queries, n_wanted] made: their places
  double* values;          // likewise, when they were chosen
  double* relevances;      // likewise
  double* similarities;    // likewise
  std::uint32_t* nearest;  // likewise; kNone32: none is similar
};

// Lists in host memory and what a stage does with them, as ShapeJob has them; what only the other
// stage reads is empty.
struct ShapeBatch {
  ShapeStage stage;
  std::span<std::uint32_t const> offsets;  // [n_queries + 1] lists of at most kMostShaped
  std::span<std::uint32_t const> segment;
  std::span<std::uint32_t const> row;
  double threshold = 0.0;
  bool is_unit = false;
  std::span<std::int64_t const> preference{};
  double relevance_weight = 0.0;
  RelevanceScale scale = RelevanceScale::kRaw;
  std::uint32_t n_wanted = 0;
  std::span<double const> scores{};
  std::span<std::int64_t const> tokens{};
  std::span<std::int64_t const> budgets{};
};

// What became of the lists, in memory that is the library's again once it has been taken. The
// arrays are those of ShapeJob; those of other stages are null.
struct ShapeResults {
  std::uint32_t const* kept_for;
  std::uint32_t const* n_alike;
  std::uint32_t const* counts;
  std::uint32_t const* chosen;
  double const* values;
  double const* relevances;
  double const* similarities;
  std::uint32_t const* nearest;
};

}  // namespace hyrecall
