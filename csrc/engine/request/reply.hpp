// What comes back of a batch: statistics, candidates and the arrays of the reply. Plain data.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/fusion_math.hpp"
#include "core/pooled.hpp"
#include "core/small_vector.hpp"
#include "core/types.hpp"
#include "engine/doc_ref.hpp"
#include "engine/request/text_query.hpp"

namespace hyrecall {

// BM25 statistics of one query in one lexical arm: integers, so parts add up exactly.
struct QueryStatistics {
  using DocFreqs = SmallVector<std::int64_t, 8>;

  std::int64_t n_docs = 0;
  std::int64_t total_length = 0;
  DocFreqs doc_freqs;  // [n_leaves]
  // Of a request with evidence: what else its scores need.
  std::int64_t squared_length = 0;   // sum of the squares of the lengths
  std::int64_t n_threads = 0;        // with a text
  std::int64_t thread_length = 0;    // of all of them together
  DocFreqs thread_freqs{};           // [n_leaves] threads that hold the leaf
  Refusal refusal = Refusal::kNone;  // if the text is refused, there are no leaves
  Expansions expansions{};           // of words that stand for several terms
};
using Statistics = std::vector<std::vector<QueryStatistics>>;  // [lexical arm][query]

// What stands around the candidates of a query. The pool then holds more than its lists: the rows
// that are near those of the lists in their threads, whether or not the filter lets them pass.
struct PoolEvidence {
  std::size_t n_found = 0;           // documents of the lists; those that are only near come behind
  std::vector<std::uint8_t> hidden;  // [n_docs] 1: the filter keeps the document out of the reply
  // [n_docs, n_distances, 2] the document so many places before and behind, as an index into docs;
  // kNone32 = there is none, or it is not near a document of the lists.
  std::vector<std::uint32_t> near;
  std::vector<float> threads;          // [n_docs, n_lexical] BM25 of the thread, kNoScore = null
  std::vector<std::uint32_t> lengths;  // [n_docs, n_lexical] tokens, kNone32 = no text
  std::vector<double> length_shares;   // [n_lexical] how much lengths count in the scope
  std::vector<double> priors;          // [n_docs] of a request with a prior, else empty
};

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
  std::optional<PoolEvidence> evidence{};

  std::size_t n_found() const { return evidence ? evidence->n_found : docs.size(); }
};

// The arrays of a reply: a row for each hit, ordered by (query, rank).
struct ReplyArrays {
  ReplyArrays() = default;
  ReplyArrays(ReplyArrays&&) = default;
  ReplyArrays& operator=(ReplyArrays&&) = default;
  ~ReplyArrays();  // not in the bindings, which are built without what makes it quick

  // Room for the hits that the offsets tell of, all of part 0; the rest is for the caller to write.
  void make_room(std::size_t n_arms);

  std::vector<std::int64_t> offsets{0};  // [n_queries + 1]
  Pooled<std::uint32_t> part;
  Pooled<std::uint32_t> segment;
  Pooled<Row> row;
  Pooled<std::int32_t> rank;  // from 1, in the whole list
  Pooled<double> score;
  Pooled<float> arm_scores;              // [n_hits, n_arms], kNoScore = null
  Pooled<std::int32_t> arm_ranks;        // [n_hits, n_arms], 0 = outside the arm's list
  std::vector<double> scales;            // [n_queries, 3 n_arms + 1], see FusedList
  std::vector<std::int32_t> list_sizes;  // [n_queries, n_arms], documents in each arm's list
  // Of a request with evidence, else empty: the score before it, what each part added (NaN = null),
  // and the neighbour that spoke at each distance (kNone32 = none), of the hit's part.
  std::vector<double> fused;                // [n_hits]
  std::vector<double> addends;              // [n_hits, n_addends]
  std::vector<std::uint32_t> near_segment;  // [n_hits, n_distances]
  std::vector<Row> near_row;                // [n_hits, n_distances]
};

}  // namespace hyrecall
