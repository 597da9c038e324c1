// What comes back of a batch: statistics, candidates and the arrays of the reply. Plain data.
#pragma once

#include <cstdint>
#include <vector>

#include "core/fusion_math.hpp"
#include "core/small_vector.hpp"
#include "core/types.hpp"
#include "engine/doc_ref.hpp"

namespace hyrecall {

// BM25 statistics of one query in one lexical arm: integers, so parts add up exactly.
struct QueryStatistics {
  using DocFreqs = SmallVector<std::int64_t, 8>;

  std::int64_t n_docs = 0;
  std::int64_t total_length = 0;
  DocFreqs doc_freqs;  // [n_leaves]
};
using Statistics = std::vector<std::vector<QueryStatistics>>;  // [lexical arm][query]

// Candidates of one query from one part, its pool: each arm's list, and every document's score in
// every arm that ran.
struct QueryCandidates {
  struct Doc {
    Seq seq;
    DocRef doc;
  };
  std::vector<Doc> docs;
  std::vector<float> scores;  // [n_docs, n_arms], kNoScore = null
  std::vector<std::vector<std::uint32_t>>
      lists;  // [n_arms] indices into docs, by (score desc, seq asc)
};

// The arrays of a reply: a row for each hit, ordered by (query, rank).
struct ReplyArrays {
  std::vector<std::int64_t> offsets{0};  // [n_queries + 1]
  std::vector<std::uint32_t> part;
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;
  std::vector<std::int32_t> rank;  // from 1, in the whole list
  std::vector<double> score;
  std::vector<float> arm_scores;         // [n_hits, n_arms], kNoScore = null
  std::vector<std::int32_t> arm_ranks;   // [n_hits, n_arms], 0 = outside the arm's list
  std::vector<double> scales;            // [n_queries, 3 n_arms + 1], see FusedList
  std::vector<std::int32_t> list_sizes;  // [n_queries, n_arms], documents in each arm's list
};

}  // namespace hyrecall
