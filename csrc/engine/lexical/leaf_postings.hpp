// Finds the postings of a query's leaves in one segment, inside the scope.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "engine/lexical/posting_list.hpp"
#include "engine/lexical/query.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

// The greatest number of terms of the authorised cells that a word finds which stands for several.
inline constexpr std::size_t kMostExpanded = 1024;

// Those of terms that the most documents hold; of equal ones the first by UTF-8 bytes. Sorted.
std::vector<std::string> most_frequent(Expansion const& terms, std::size_t n);

struct LeafPostings {
  TermId term = kNone32;  // a plain term's number
  PostingList list;       // the column's, or own
  // The postings inside the scope are [begin, end); an own list has no others.
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int64_t doc_freq = 0;  // live documents of the scope that hold the leaf
  std::unique_ptr<OwnPostings const> own;

  std::uint32_t n_in_scope() const { return end - begin; }
  // The frequency in a row of the scope; 0 if it does not hold the leaf.
  std::uint32_t freq_of(Row row) const { return list.freq_of(row); }
};

// The postings of the leaves of each query of a batch, in one arm.
class ArmPostings {
 public:
  ArmPostings(std::span<std::optional<LexicalQuery> const> queries, std::size_t n_segments);

  // By leaf; empty for a missing query.
  std::span<LeafPostings> at(std::size_t query, std::size_t segment) {
    return {leaves_.data() + place(query, segment), firsts_[query + 1] - firsts_[query]};
  }
  std::span<LeafPostings const> at(std::size_t query, std::size_t segment) const {
    return {leaves_.data() + place(query, segment), firsts_[query + 1] - firsts_[query]};
  }

 private:
  std::size_t place(std::size_t query, std::size_t segment) const {
    return firsts_[query] * n_segments_ + segment * (firsts_[query + 1] - firsts_[query]);
  }

  std::size_t n_segments_;
  std::vector<std::size_t> firsts_{0};  // [n_queries + 1] number of leaves of earlier queries
  std::vector<LeafPostings> leaves_;    // by query, segment and leaf
};

// A query on a segment: its scope, and the place of its results.
struct QueryOnSegment {
  ScopeRows const* scope;
  LexicalQuery const* query;
  std::span<LeafPostings> out;  // [query.leaves]
};

// A plain term of one query among several.
struct TermPlace {
  std::uint32_t query;
  std::uint32_t leaf;
};

// Working memory of one thread; aligned so that threads share no cache line.
struct alignas(128) PostingScratch {
  std::vector<std::uint8_t> bytes;
  std::vector<PostingRun> runs;
  std::vector<TermPlace> terms;
};

// Looking up the terms of so many queries together keeps enough memory reads in flight.
inline constexpr std::size_t kQueriesTogether = 8;

// Finds the postings of each plain term of some queries. Each step prefetches the memory that the
// next step reads.
void find_terms(SegmentView const& view, std::size_t arm, std::span<QueryOnSegment const> queries,
                PostingScratch& scratch);

// Finds the postings of each phrase, prefix and fuzzy word of a query. expanded: the terms for
// which single words have stood so far, over all segments.
void find_phrases(SegmentView const& view, std::size_t arm, QueryOnSegment const& query,
                  Expansions& expanded);

// Finds the postings again of the words whose terms were chosen.
void find_chosen(SegmentView const& view, std::size_t arm, QueryOnSegment const& query);

// How often a phrase occurs, given each term's positions: the number of places of its first term
// for which the other terms have places such that all displacements (position - offset) span at
// most slop. With slop 0 this is an exact phrase.
std::uint32_t count_phrase(std::span<std::span<std::uint32_t const> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop);

}  // namespace hyrecall
