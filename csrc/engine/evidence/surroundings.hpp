// Which rows stand around the candidates of a query, and what their threads say as one document.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/evidence/snapshot_threads.hpp"
#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_postings.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

// Counts threads instead of rows: those of a scope with a text in the column, and how many of them
// hold each leaf. scope, postings: [segment].
void count_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   std::span<ScopeRows const> scope,
                   std::span<std::span<LeafPostings const> const> postings,
                   QueryStatistics& statistics);

// Extends a pool by the live rows up to so many places away from its documents in their threads,
// and says who is near whom. The new documents have no scores yet.
void add_surroundings(Snapshot const& snapshot, SnapshotThreads const& threads,
                      std::size_t n_distances, std::size_t n_arms, QueryCandidates& pool);

// BM25 of the thread of each document of the pool: of all its live rows together, with the threads'
// own statistics. Null without a thread, or with one that has no text. postings: [segment].
void score_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   Bm25Query const& query, std::span<std::span<LeafPostings const> const> postings,
                   QueryCandidates const& pool, std::span<float> scores);

}  // namespace hyrecall
