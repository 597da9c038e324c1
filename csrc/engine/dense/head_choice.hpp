// Learns the directions of a column's heads from a sample of its rows.
//
// Directions only select candidates; no score depends on them. So each new segment may learn its
// own directions.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "engine/dense/column.hpp"
#include "kernels/settings.hpp"

namespace hyrecall {

// The numbers of directions that a trial compares for rows of 128 dimensions or more, ascending; at
// most kMostDirections.
std::vector<std::size_t> head_sizes(std::size_t dim);

struct HeadChoice {
  std::shared_ptr<Directions const> directions;  // null: heads would not pay
  CodeBits bits = CodeBits::k4;
};

// Heads do not pay if the rows are few, or if all directions have about the same energy.
HeadChoice choose_head(DenseColumn const& column, int threads, FirstPassChoice choice);

}  // namespace hyrecall
