// A BoundFilter as the flat data of kernels/shared/tile_filter.hpp.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/scope/filter.hpp"
#include "engine/segment/attributes.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall {

struct TileProgram {
  std::vector<TileTest> tests;
  std::vector<std::int64_t> codes;

  // Valid until the program changes.
  TileProgramView view() const {
    return {tests.data(), static_cast<std::uint32_t>(tests.size()), codes.data()};
  }
};

// Says the same of every tile and row; TileTest::column counts the columns that the filter was
// bound to. It fits kMaxFilterLevels however the filter is nested, up to some 10^8 tests.
TileProgram flatten(BoundFilter const& filter);

// Borrowed from the column.
AttributeView view_of(AttributeColumn const& column);

}  // namespace hyrecall
