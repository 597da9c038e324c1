// The statistics and candidates of a part as flat arrays, in which they travel to another process.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"

namespace hyrecall {

inline constexpr std::size_t kQueryNumbers = 6;

// The entry of query q in lexical arm a is number a * n_queries + q.
template <template <typename> typename Values>
struct StatisticsArrays {
  // [n_entries, 5] documents, total length, squared length, threads, length of the threads
  Values<std::int64_t> numbers;
  Values<std::int64_t> freq_ends;  // [n_entries + 1] of each entry's leaves among freqs, from 0
  Values<std::int64_t> freqs;
  Values<std::int64_t> thread_ends;  // [n_entries + 1] the same among thread_freqs
  Values<std::int64_t> thread_freqs;
};

// Query q has the documents from doc_ends[q] to doc_ends[q + 1]; what a list or a neighbour names
// is a document of its query, from 0.
template <template <typename> typename Values>
struct CandidateArrays {
  Values<std::int64_t> doc_ends;  // [n_queries + 1]
  Values<std::int64_t> seq;       // [n_docs]
  Values<std::uint32_t> segment;  // [n_docs]
  Values<std::uint32_t> row;      // [n_docs]
  Values<float> scores;           // [n_docs, n_arms], kNoScore = null

  Values<std::int64_t> list_ends;  // [n_queries * n_arms + 1]
  Values<std::uint32_t> listed;    // the lists, by (score desc, seq asc)
  // Of a request with evidence, else empty: see PoolEvidence.
  Values<std::int64_t> found;     // [n_queries] documents of the lists
  Values<std::uint8_t> hidden;    // [n_docs]
  Values<std::uint32_t> near;     // [n_docs, n_distances, 2]
  Values<float> threads;          // [n_docs, n_lexical]
  Values<std::uint32_t> lengths;  // [n_docs, n_lexical]
  Values<double> length_shares;   // [n_queries, n_lexical]
  Values<double> priors;          // [n_docs] of a request with a prior
};

template <typename T>
using OwnedValues = std::vector<T>;
template <typename T>
using BorrowedValues = std::span<T const>;

StatisticsArrays<OwnedValues> arrays_of(Statistics const& statistics);
CandidateArrays<OwnedValues> arrays_of(std::vector<QueryCandidates> const& pools);

// Throws unless the arrays fit each other and have so many arms and queries.
Statistics to_statistics(StatisticsArrays<BorrowedValues> const& arrays, std::size_t n_arms,
                         std::size_t n_queries);

// Throws unless the arrays fit each other and the request, and each list is in its order.
std::vector<QueryCandidates> to_candidates(CandidateArrays<BorrowedValues> const& arrays,
                                           BatchRequest const& request);

}  // namespace hyrecall
