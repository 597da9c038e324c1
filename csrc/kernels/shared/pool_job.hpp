// The lists of a batch's arms on a device, and what kernels make of them: one pool a query, whose
// documents are scored in every arm, and the hits that fusion leaves of it.
#pragma once

#include <cstdint>
#include <span>

#include "core/fusion_math.hpp"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall {

inline constexpr std::uint32_t kMostPoolArms = 4;
inline constexpr std::uint32_t kMostPoolList = 1024;  // documents in a list of an arm
inline constexpr std::uint32_t kMostPoolDocs = kMostPoolArms * kMostPoolList;

enum class PoolArmKind : std::uint32_t { kLexical, kDense, kListed };

// What the documents outside an arm's list score there.
enum class PoolAnswer : std::uint8_t {
  kNone,   // nothing: the query asks the arm nothing, or its documents came with the request
  kWhole,  // the list holds all that the arm finds: 0 where there is a text, nothing without a
           // vector
  kCut,    // depth or a floor cut the list: each document is scored
};

// An arm's lists: query q has the entries [begins[q], begins[q] + counts[q]), at most
// kMostPoolList, by (score desc, seq asc). Entries of two queries are apart, those of a later query
// behind those of an earlier one.
struct PoolArm {
  PoolArmKind kind;
  std::uint32_t n_segments;
  std::uint32_t depth;  // a shorter list of an arm without a floor has all that the arm finds
  std::uint32_t has_floor;
  std::uint32_t const* begins;  // [n_queries]
  std::uint32_t const* counts;  // [n_queries]
  float const* scores;
  std::int64_t const* seqs;            // distinct in a list
  std::uint32_t const* slots;          // in the numbering of segment_tiles
  std::uint32_t const* segment_tiles;  // [n_segments] the first tile of each, of kTileRows slots
  std::uint8_t const* asks;  // [n_queries] whether the query asks the arm; null: nothing is asked
  // [n_queries] the query of the arm's search, kNone32: it was not searched for.
  std::uint32_t const* places;

  // Of a dense arm.
  RowType row_type;
  std::uint32_t dim;
  DenseSegment const* segments;      // [n_segments]
  float const* queries;              // [n places, dim]
  float const* inverse_query_norms;  // [n places]

  LexicalJob lexical;  // of a lexical arm, texts by place; its norms are not read
};

// Lists in host memory, as PoolArm has them.
struct PoolArrays {
  std::span<std::uint32_t const> segment_tiles;
  std::span<std::uint32_t const> begins;
  std::span<std::uint32_t const> counts;
  std::span<float const> scores;
  std::span<std::int64_t const> seqs;
  std::span<std::uint32_t const> slots;
};

// A query without a direction asks nothing.
HYRECALL_HD inline PoolAnswer answer_of(PoolArm const& arm, std::uint32_t query) {
  if (arm.asks == nullptr || arm.asks[query] == 0) return PoolAnswer::kNone;
  if (arm.kind == PoolArmKind::kDense) {
    std::uint32_t const place = arm.places[query];
    if (place == kNone32 || arm.inverse_query_norms[place] == 0.0f) return PoolAnswer::kNone;
  }
  bool const is_whole = arm.has_floor == 0 && arm.counts[query] < arm.depth;
  return is_whole ? PoolAnswer::kWhole : PoolAnswer::kCut;
}

// How pools become hits; as BatchRequest says.
struct PoolFusion {
  FusionKind kind;
  std::uint32_t is_complete;
  std::uint32_t n_arms_a_doc;
  std::uint32_t has_balance;
  std::uint32_t ranks_by_place;
  double rank_constant;
  double balance;
  double weights[kMostPoolArms];
  FusionScale scales[kMostPoolArms];
  double min_fused;  // -inf: none
  std::uint32_t is_strict;
  std::uint32_t is_normalized;
  std::uint32_t offset;
  std::uint32_t limit;  // hits that a query has room for
};

struct PoolDoc {
  std::uint32_t segment;
  std::uint32_t row;
};

struct PoolJob {
  std::uint32_t n_queries;
  std::uint32_t n_arms;
  PoolArm arms[kMostPoolArms];
  PoolFusion fusion;

  // The pools, made by kernels. Query q has the documents [first_doc(q), first_doc(q) +
  // doc_counts[q]): by seq, or as their list where there is one arm.
  std::uint32_t* doc_counts;  // [n_queries]
  std::int64_t* seqs;         // [n_docs]
  PoolDoc* docs;              // [n_docs]
  float* scores;              // [n_docs, n_arms], kNoScore: none
  std::int32_t* ranks;        // [n_docs, n_arms] from 1; 0: outside the arm's list

  // The hits, likewise.
  std::uint32_t* hit_counts;  // [n_queries]
  PoolDoc* hit_docs;          // [n_queries, limit]
  double* hit_scores;         // [n_queries, limit]
  float* hit_arm_scores;      // [n_queries, limit, n_arms]
  std::int32_t* hit_arm_ranks;
  double* query_scales;  // [n_queries, 3 n_arms + 1] as FusedList has them
};

// What became of the lists, in memory that is the library's again once it has been taken. The
// arrays are those of PoolJob.
struct PoolResults {
  std::uint32_t const* hit_counts;
  PoolDoc const* hit_docs;
  double const* hit_scores;
  float const* hit_arm_scores;
  std::int32_t const* hit_arm_ranks;
  double const* query_scales;
  // Of arms that are searched: how many documents each list has, and by the search's queries
  // whether some may be missing; then the hits of that query are not whole.
  std::uint32_t const* counts[kMostPoolArms];
  std::uint32_t const* overflows[kMostPoolArms];
};

// Where a query's documents begin: no pool has more than its lists together.
HYRECALL_HD inline std::size_t first_doc(PoolJob const& job, std::uint32_t query) {
  std::size_t first = 0;
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) first += job.arms[arm].begins[query];
  return first;
}

HYRECALL_HD inline std::uint32_t scales_a_query(std::uint32_t n_arms) {
  return 3 * n_arms + 1;
}

}  // namespace hyrecall
