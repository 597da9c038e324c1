// How many rows have each value of an attribute column, or a value in each of some ranges.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "engine/scope/audience.hpp"

namespace hyrecall {

// The distinct values of a column, most frequent first, equal counts by rising value.
struct ValueCounts {
  std::vector<std::int64_t> codes;      // of a column of numbers, times or bools
  std::vector<std::string_view> texts;  // of a column of texts; the snapshot's memory
  std::vector<std::int64_t> counts;
};

// A row of a list column counts once for each distinct value; null and NaN are no value.
ValueCounts count_values(Snapshot const& snapshot, GroupTiles const& tiles, std::size_t attribute);

// [edges.size() + 1] how many rows have a code that exactly so many of the rising edges do not
// exceed. Of a column with one number or time a row; null and NaN are no value.
std::vector<std::int64_t> count_between(Snapshot const& snapshot, GroupTiles const& tiles,
                                        std::size_t attribute, std::span<std::int64_t const> edges);

}  // namespace hyrecall
