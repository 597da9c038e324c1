// What joins the parts of an index: their statistics, their candidates.
#pragma once

#include <span>
#include <vector>

#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"

namespace hyrecall {

// Throws unless both have the same arms, queries and leaves.
void require_like(Statistics const& one, Statistics const& other);

// Sums the integers of one or more parts; idf is computed once, from the sum.
Statistics add_statistics(std::span<Statistics const* const> parts);

// Merges each arm's lists of one or more parts by (score, seq), cuts them at depth, ranks, fuses,
// and cuts offset and limit.
ReplyArrays merge(BatchRequest const& request,
                  std::span<std::vector<QueryCandidates> const* const> parts);

}  // namespace hyrecall
