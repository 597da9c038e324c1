// The directions of a column's heads, learnt from a sample of its rows.
//
// Directions choose candidates only; no score depends on them. So they may be learnt anew whenever
// a segment is made, and differ from segment to segment.
#pragma once

#include <memory>

#include "engine/dense/column.hpp"
#include "kernels/settings.hpp"

namespace hyrecall {

// Null: heads would not pay, since the rows are few or lie in all directions alike.
std::shared_ptr<Directions const> choose_directions(DenseColumn const& column, int threads,
                                                    FirstPassChoice choice);

}  // namespace hyrecall
