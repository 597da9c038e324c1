// What joins the parts of an index: their statistics, their candidates.
#pragma once

#include <span>
#include <vector>

#include "engine/fusion/fusion.hpp"
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

// Appends the hits of a query: the page of its fused list. part: [n_docs]; empty = all of part 0.
void append_hits(BatchRequest const& request, QueryCandidates const& pool, FusedList const& list,
                 std::span<std::uint32_t const> part, ReplyArrays& hits);

// The hits of queries behind each other.
ReplyArrays join_pieces(std::span<ReplyArrays const> pieces);

}  // namespace hyrecall
