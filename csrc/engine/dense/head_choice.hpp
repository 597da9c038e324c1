// The directions of a column's heads, learnt from a sample of its rows.
//
// Directions choose candidates only; no score depends on them. So they may be learnt anew whenever
// a segment is made, and differ from segment to segment.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/dense/column.hpp"
#include "kernels/settings.hpp"

namespace hyrecall {

// The numbers of directions that a trial compares for rows of 128 dimensions or more, rising; at
// most kMostDirections.
std::vector<std::size_t> head_sizes(std::size_t dim);

struct HeadChoice {
  std::shared_ptr<Directions const> directions;  // null: heads would not pay
  CodeBits bits = CodeBits::k4;
};

// Heads do not pay where the rows are few or lie in all directions alike.
HeadChoice choose_head(DenseColumn const& column, int threads, FirstPassChoice choice);

}  // namespace hyrecall
