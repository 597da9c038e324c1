// A query's leaves on one segment: where each occurs, inside the scope.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/lexical/posting_list.hpp"
#include "engine/lexical/query.hpp"
#include "engine/scope/selection.hpp"

namespace hyrecall {

// How many terms of the authorised cells a prefix may stand for.
inline constexpr std::size_t kPrefixBudget = 1024;

struct LeafPostings {
  TermId term = kNone32;  // a plain term's number
  PostingList list;       // the column's, or own
  // Those inside the scope; all of an own list are.
  std::uint32_t begin = 0;
  std::uint32_t end = 0;
  std::int64_t doc_freq = 0;  // live documents of the scope that hold the leaf
  std::unique_ptr<OwnPostings const> own;

  std::uint32_t n_in_scope() const { return end - begin; }
  // Of a row in the scope; 0 if it does not hold the leaf.
  std::uint32_t freq_of(Row row) const { return list.freq_of(row); }
};

// Where the leaves of each query of a batch occur, in one arm.
class ArmPostings {
 public:
  ArmPostings(std::span<std::optional<LexicalQuery> const> queries, std::size_t n_segments);

  // By leaf; none of a missing query.
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
  std::vector<std::size_t> firsts_{0};  // [n_queries + 1] leaves of the queries before
  std::vector<LeafPostings> leaves_;    // by query, segment and leaf
};

// A query on a segment: what it may read, and where it finds.
struct QueryOnSegment {
  ScopeRows const* scope;
  LexicalQuery const* query;
  std::span<LeafPostings> out;  // [query.leaves]
};

// A plain term of one of some queries.
struct TermPlace {
  std::uint32_t query;
  std::uint32_t leaf;
};

// Working memory of one thread: two write no cache line both.
struct alignas(128) PostingScratch {
  std::vector<std::uint8_t> bytes;
  std::vector<PostingRun> runs;
  std::vector<TermPlace> terms;
};

// So many queries together keep the memory busy.
inline constexpr std::size_t kQueriesTogether = 8;

// Fills in where each plain term of some queries occurs: what one step asks for is on its way when
// the next one reads it.
void find_terms(SegmentView const& view, std::size_t arm, std::span<QueryOnSegment const> queries,
                PostingScratch& scratch);

// Fills in where each phrase and prefix of a query occurs. expanded: the distinct terms that
// prefixes stood for so far, by leaf, over all segments; past kPrefixBudget it is an error.
void find_phrases(SegmentView const& view, std::size_t arm, QueryOnSegment const& query,
                  std::map<std::size_t, std::set<std::string>>& expanded,
                  std::string const& argument);

// How often a phrase occurs, given each term's positions: places of its first term for which every
// other term lies so that the displacements (position - offset) of all span at most slop. With slop
// 0 that is an exact phrase.
std::uint32_t count_phrase(std::span<std::span<std::uint32_t const> const> positions,
                           std::span<std::uint32_t const> offsets, std::uint32_t slop);

}  // namespace hyrecall
