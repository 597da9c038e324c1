// Putting segments together: which live row goes where.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "engine/segment.hpp"

namespace hyrecall {

struct MergeOrder {
  std::vector<std::uint32_t> source;  // [n_live] index of the view
  std::vector<Row> source_row;        // [n_live] row in it
};

// Live rows of all views by (cell, cluster, seq). cluster: per view a code per row, or none at all.
MergeOrder merge_order(std::span<std::shared_ptr<SegmentView const> const> views,
                       std::span<std::span<std::int64_t const> const> cluster);

}  // namespace hyrecall
