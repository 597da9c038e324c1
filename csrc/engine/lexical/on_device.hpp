// The lexical arm on a CUDA device.
#pragma once

#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/device_texts.hpp"
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
  CandidateLists run() const { return search_.run(batch()); }

 private:
  DeviceSearch search_;
  DeviceTexts texts_;
  device::TextQueries queries_;
};

}  // namespace hyrecall
