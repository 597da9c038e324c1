// The dense arm: exact cosine of a row.
#pragma once

#include "engine/request.hpp"
#include "engine/topk.hpp"

namespace hyrecall {

// Cosine of one row; kNoScore if the row or the query has no vector.
float score_dense(Segment const& segment, DenseRequest const& arm, std::size_t query, Row row);

}  // namespace hyrecall
