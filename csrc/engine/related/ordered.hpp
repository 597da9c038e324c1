// Rows in the order of attribute columns.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "engine/scope/audience.hpp"

namespace hyrecall {

struct SortKey {
  std::size_t attribute = 0;  // of Segment::Parts::attributes; no list column
  bool descending = false;
};

// The first n rows by these keys, then by seq. A row without a value (null, NaN) comes last in
// either direction.
std::vector<DocRef> ordered_rows(Snapshot const& snapshot, GroupTiles const& tiles,
                                 std::span<SortKey const> keys, std::size_t n);

}  // namespace hyrecall
