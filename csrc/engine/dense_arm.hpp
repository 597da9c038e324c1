// The dense arm: exact cosine over the selected rows.
#pragma once

#include <span>

#include "engine/request.hpp"
#include "engine/topk.hpp"

namespace hyrecall {

// Offers every selected row that has a vector and passes the floor. One pass over the tiles serves
// all queries: a tile's rows stay in cache while each query meets them.
void scan_dense(SegmentView const& view, std::uint32_t segment, DenseRequest const& arm,
                std::span<SelectedTile const> tiles, std::span<std::uint32_t const> queries,
                std::span<TopK* const> best);

// Cosine of one row; kNoScore if the row or the query has no vector.
float score_dense(Segment const& segment, DenseRequest const& arm, std::size_t query, Row row);

}  // namespace hyrecall
