// What one query may see in one segment: the rows of its cells, less the dead, less what the filter
// leaves out.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/small_vector.hpp"
#include "core/types.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/filter.hpp"
#include "engine/scope/scope_bits.hpp"
#include "engine/segment/segment.hpp"

namespace hyrecall {

// A scope on one segment.
struct ScopeRows {
  SmallVector<std::uint32_t, 1> cells{};  // rising
  SmallVector<RowRange, 1> ranges{};      // rising, adjacent cells merged
  Row n_rows = 0;
  ScopeBits bits{};  // of the ranges, or of fewer: what is missing is searched

  bool contains(Row row) const;
};
ScopeRows resolve_scope(Segment const& segment, Scope const& scope, int threads);

// The cells with a live document whose every part equals the pattern's (encoded as in encode_cell;
// none = any value).
Scope match_cells(Snapshot const& snapshot, std::span<std::optional<std::string> const> pattern);

struct SelectedTile {
  Row tile;
  TileMask mask;  // at least one bit
};
// The tiles of the rows that may appear in a reply, rising.
std::vector<SelectedTile> select_tiles(SegmentView const& view, ScopeRows const& rows,
                                       FilterProgram const* filter);

}  // namespace hyrecall
