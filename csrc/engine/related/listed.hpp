// Candidates that come with the request.
#pragma once

#include <span>
#include <vector>

#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// A query's list: what its group may see of the given documents, each once by its best score, that
// passes the floor; by (score desc, seq asc), cut at depth.
std::vector<Candidate> list_candidates(Snapshot const& snapshot, Audience const& audience,
                                       std::uint32_t group, std::span<ListedDoc const> given,
                                       Floor<float> const& floor, std::size_t depth);

}  // namespace hyrecall
