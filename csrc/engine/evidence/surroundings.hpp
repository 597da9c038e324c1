// Which rows stand around the candidates of a query, and what their threads say as one document.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "engine/evidence/snapshot_threads.hpp"
#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_postings.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

// A row of a thread, for a thread whose rows lie in several segments.
struct ThreadRow {
  PlaceKey key;
  DocRef doc;
};

// The documents of a pool by thread, and working memory of one thread.
struct PoolThreads {
  // A document of the lists that is in a thread.
  struct Member {
    std::uint32_t thread, place;  // place: in its segment's part of the thread
    std::uint32_t doc;            // index into the pool
    std::uint32_t of_segment;     // the thread in its segment's table
  };
  // Where the rows of a thread lie in a segment.
  struct Span {
    std::uint32_t group, thread;  // thread: of the segment's table
    Row first, last;
  };
  // A row of a thread that is in the pool.
  struct Touched {
    std::uint32_t ordinal;  // among the thread's live rows
    std::uint32_t doc;
  };
  struct Group {
    std::uint32_t thread;
    std::uint32_t begin, end;            // of docs
    std::uint32_t first_part, end_part;  // of parts
  };
  std::vector<Group> groups;        // rising threads
  std::vector<std::uint32_t> docs;  // indices into the pool
  std::vector<SnapshotThreads::Part> parts;

  std::vector<Member> members;  // by thread, place and document
  std::vector<SnapshotThreads::Part> found;
  std::vector<DocRef> rows;             // of a thread, live, in their order
  std::vector<ThreadRow> keyed;         // the same, where segments share the thread
  std::vector<std::uint32_t> ordinals;  // [place] among the live
  std::vector<Touched> touched;         // by rising ordinal
  std::vector<Touched> listed;          // those of the lists
  std::vector<std::uint64_t> freqs;     // [group][leaf]
  std::vector<Span> spans;              // of one segment's parts of all groups
};

// The values of a prior as one segment has them: pairs of code and addend, rising.
using PriorCodes = std::vector<std::pair<std::int64_t, double>>;
PriorCodes prior_codes(Prior const& prior, Segment const& segment);

// Working memory of count_threads().
struct ThreadCounts {
  std::vector<std::uint64_t> seen;  // a bit for each thread
  std::string key;
};

// Counts threads instead of rows: those of a scope with a text in the column, and how many of them
// hold each leaf. scope, postings: [segment].
void count_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   LexicalQuery const& query, std::span<ScopeRows const> scope,
                   std::span<std::span<LeafPostings const> const> postings, ThreadCounts& room,
                   QueryStatistics& statistics);

// Extends a pool by the live rows up to so many places away from its documents in their threads,
// and says who is near whom. The new documents have no scores yet. own: which thread each is of.
void add_surroundings(Snapshot const& snapshot, SnapshotThreads const& threads,
                      std::size_t n_distances, std::size_t n_arms, QueryCandidates& pool,
                      PoolThreads& own);

// What the values of the documents of a pool add. columns: [segment] where an addend stands.
void add_priors(Prior const& prior, Snapshot const& snapshot, std::span<PriorCodes const> columns,
                QueryCandidates& pool);

// BM25 of the thread of each document of the pool: of all its live rows together, with the threads'
// own statistics. Null without a thread, or with one that has no text. postings: [segment]; own: of
// add_surroundings().
void score_threads(Snapshot const& snapshot, SnapshotThreads const& threads, std::size_t column,
                   Bm25Query const& query, std::span<std::span<LeafPostings const> const> postings,
                   PoolThreads& own, std::span<float> scores);

}  // namespace hyrecall
