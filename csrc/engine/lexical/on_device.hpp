// The lexical arm on a CUDA device.
#pragma once

#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/scope/audience.hpp"
#include "engine/scope/on_device.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// Whether a device can search the query; trees with more leaves are for the CPU.
bool is_for_device(LexicalQuery const& query);

// Converts a tree into steps that need at most 32 levels.
std::vector<MatchStep> match_steps_of(MatchNode const& root);

// An arm of a request, ready to be searched. Finds each query's best `depth` rows, bit for bit as
// the CPU; none of a query that is not for a device.
class LexicalArm {
 public:
  // table: of the arm's column. scorers: [n_queries]. groups: of the arm's table of scopes. only:
  // the queries that are wanted; empty: all.
  LexicalArm(device::DeviceTable const& table, Snapshot const& snapshot,
             BatchRequest const& request, LexicalRequest const& arm, ResolvedScopes const& scopes,
             QueryGroups const& groups, std::span<Bm25Query const> scorers,
             ArmPostings const& postings, std::span<std::uint32_t const> only);
  LexicalArm(LexicalArm const&) = delete;
  LexicalArm& operator=(LexicalArm const&) = delete;

  // Points into this.
  device::DenseSearch batch() const;
  void run(QueryLists& lists, ListTaker* taker) const { search_.run(batch(), lists, taker); }

 private:
  bool occurs(std::size_t n_leaves, std::size_t query, ArmPostings const& postings) const;
  LexicalText add(std::size_t number, Bm25Query const& scorer, ArmPostings const& postings);
  std::uint32_t list_of(LeafPostings const& leaf, bool is_term);
  std::uint32_t number_of(LengthScale scale);

  DeviceSearch search_;
  std::size_t n_segments_;
  Bm25 bm25_;
  std::vector<LexicalText> texts_;
  std::vector<float> weights_;
  std::vector<float> shifts_;
  std::vector<std::uint32_t> lists_;
  std::vector<OwnList> own_lists_;
  std::vector<std::uint32_t> own_postings_;
  std::vector<PostingRun> own_runs_;
  std::vector<PostingEscape> own_escapes_;
  std::vector<MatchStep> match_steps_;
  std::vector<LengthScale> scales_;
  std::vector<std::uint32_t> numbers_;  // of scales, by hash: open addressing, kNone32 is free
  TextQueries queries_;                 // points to the arrays
};

}  // namespace hyrecall
