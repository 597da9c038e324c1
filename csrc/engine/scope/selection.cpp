#include "engine/scope/selection.hpp"

#include <algorithm>
#include <optional>

namespace hyrecall {

bool ScopeRows::contains(Row row) const {
  auto const after = std::upper_bound(ranges.begin(), ranges.end(), row,
                                      [](Row r, RowRange const& range) { return r < range.begin; });
  return after != ranges.begin() && row < (after - 1)->end;
}

ScopeRows resolve_scope(Segment const& segment, Scope const& scope, int threads) {
  ScopeRows out;
  if (scope.cells.size() == 1) {
    std::uint32_t const cell = segment.p.cells.find(scope.cells.front());
    if (cell != kNone32) out.cells.push_back(cell);
  } else {
    std::vector<std::uint32_t> const cells = segment.p.cells.find_all(scope.cells, threads);
    out.cells.reserve(cells.size());
    for (std::uint32_t const cell : cells) out.cells.push_back(cell);
  }
  for (std::uint32_t const cell : out.cells) {
    RowRange const rows = segment.p.cells.rows(cell);
    if (!out.ranges.empty() && out.ranges.back().end == rows.begin) {
      out.ranges.back().end = rows.end;
    } else {
      out.ranges.push_back(rows);
    }
    out.n_rows += rows.end - rows.begin;
  }
  if (!out.ranges.empty()) segment.check();
  out.bits = ScopeBits(out.ranges);
  return out;
}

Scope match_cells(Snapshot const& snapshot, std::span<std::optional<std::string> const> pattern) {
  std::vector<std::string> found;
  for (auto const& view : snapshot.segments) {
    CellDirectory const& cells = view->segment().p.cells;
    for (std::uint32_t cell = 0; cell < cells.size(); ++cell) {
      if (!cell_matches(cells.key(cell), pattern)) continue;
      RowRange const rows = cells.rows(cell);
      bool lives = view->n_dead() == 0;
      for (Row row = rows.begin; !lives && row < rows.end; ++row) lives = view->live()[row];
      if (lives) found.emplace_back(cells.key(cell));
    }
  }
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  Scope out;
  out.cells.reserve(found.size());
  for (std::string& cell : found) out.cells.push_back(std::move(cell));
  return out;
}

std::vector<SelectedTile> select_tiles(SegmentView const& view, ScopeRows const& rows,
                                       FilterProgram const* filter) {
  std::vector<SelectedTile> tiles;
  // As many as the ranges touch at least; a run of small cells shares tiles.
  tiles.reserve(rows.n_rows / kTileRows + 2);
  for (RowRange const& range : rows.ranges) {
    for (Row tile = range.begin / kTileRows; tile * kTileRows < range.end; ++tile) {
      Row const first = tile * kTileRows;
      TileMask const inside = TileMask::range(std::max(range.begin, first) - first,
                                              std::min<Row>(range.end - first, kTileRows));
      if (!tiles.empty() && tiles.back().tile == tile) {
        tiles.back().mask = tiles.back().mask | inside;  // two ranges in one tile
      } else {
        tiles.push_back({tile, inside});
      }
    }
  }
  std::optional<BoundFilter> bound;
  if (filter != nullptr && !tiles.empty()) {
    std::vector<AttributeColumn const*> columns;
    for (auto const& column : view.segment().p.attributes) columns.push_back(column.get());
    bound.emplace(*filter, columns, static_cast<Row>(view.segment().n_rows()));
  }
  if (!bound && view.n_dead() == 0) return tiles;
  std::erase_if(tiles, [&](SelectedTile& selected) {
    if (view.n_dead() > 0) selected.mask = selected.mask & view.live().tile(selected.tile);
    if (bound && selected.mask.any())
      selected.mask = selected.mask & bound->evaluate(selected.tile);
    return !selected.mask.any();
  });
  return tiles;
}

}  // namespace hyrecall
