// The lexical arm on a CUDA device.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/device_texts.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

namespace device {
class DeviceTable;
class KeptLists;
}  // namespace device

// Whether a device can search the query; trees with more leaves are for the CPU.
bool is_for_device(LexicalQuery const& query);

// Converts a tree into steps that need at most 32 levels.
std::vector<MatchStep> match_steps_of(MatchNode const& root);

// Finds each query's best `depth` rows of an arm, bit for bit as the CPU; none for a query that is
// not for a device. table: of the arm's column. scorers: [n_queries]. groups: of the arm's
// table of scopes. texts: set to the arrays that the device reads. kept: device memory that keeps
// the lists; null: they are returned.
CandidateLists scan_lexical_on_device(device::DeviceTable const& table, Snapshot const& snapshot,
                                      BatchRequest const& request, LexicalRequest const& arm,
                                      ResolvedScopes const& scopes, QueryGroups const& groups,
                                      std::span<Bm25Query const> scorers,
                                      ArmPostings const& postings,
                                      std::optional<DeviceTexts>& texts, device::KeptLists* kept);

}  // namespace hyrecall
