// A batch of queries as a dense pass reads it: flat arrays, the same on host and device.
//
// Rows of all segments stand in one row of *slots*: a segment begins at a multiple of kTileRows, so
// slot / kTileRows is a tile of the snapshot. Queries of one scope and one filter are a *group*;
// queries that read the same tiles are a *cohort*, so that each tile is read once for all of them;
// a *panel* is as many of a cohort's queries as go through the matrix units together, and a *wide*
// panel some panels that a scan keeps at hand while rows pass by. A *visit* is a panel at a tile.
#pragma once

#include <cstdint>

#include "core/types.hpp"
#include "kernels/shared/dense_stages.hpp"

namespace hyrecall {

struct SlotRange {
  std::uint32_t begin;
  std::uint32_t end;
};

// Consecutive tiles of a list of tiles: how many of the list come before, and how many of its
// stride's multiples.
struct TileRun {
  std::uint32_t tile;
  std::uint32_t position;
  std::uint32_t first;
};

// What queries of a group may see: slots in its ranges (rising, apart) that pass its filter; and
// the tiles of these ranges.
struct DenseGroup {
  std::uint32_t range_begin;
  std::uint32_t n_ranges;
  std::uint32_t filter;  // kNone32: none
  std::uint32_t run_begin;
  std::uint32_t n_runs;
  std::uint32_t stride;
  std::uint32_t n_first;  // tiles that are read first
};

struct Cohort {
  std::uint32_t run_begin;
  std::uint32_t n_runs;
  std::uint32_t n_tiles;
  std::uint32_t panel_begin;
  std::uint32_t n_panels;
  std::uint32_t stride;  // the least of its groups', of those that read some tiles first
  // Where its visits stand in the lists of these, tile by tile; kNone32: in none.
  std::uint32_t first_begin;
  std::uint32_t rest_begin;
  std::uint32_t wide_begin;  // its first wide panel, whose visits stand panel by panel
};

struct Panel {
  std::uint32_t query_begin;  // into panel_queries and panel_places
  std::uint32_t n_queries;
  std::uint32_t group_begin;  // into panel_groups
  std::uint32_t n_groups;
  std::uint32_t plane_begin;  // its first place among the panels' queries
  std::uint32_t width;        // places that it has: 8, 16 or 32; of a query alone 1
};

inline constexpr std::uint32_t kPanelQueries = 32;
// Groups of a wide panel, at most: it has so many masks.
inline constexpr std::uint32_t kWideGroups = 16;

// Chunks of a query that a wide panel may have: 192 KB of shared memory hold it.
HYRECALL_HD constexpr std::uint32_t most_wide_chunks(std::uint32_t n_queries) {
  return 1536 / n_queries;
}

struct WidePanel {
  std::uint32_t panel_begin;
  std::uint32_t n_panels;
  std::uint32_t visit_begin;  // into the list of wide visits
  std::uint32_t cohort;
};

// What a tile is to a panel.
enum class TileClass : std::uint32_t {
  kEmpty,    // no row passes for any query
  kPartial,  // masks decide
  kFull      // every row passes for every query
};

// An entry of a list of visits.
struct Visit {
  std::uint32_t tile;
  std::uint32_t panel_and_class;

  HYRECALL_HD std::uint32_t panel() const { return panel_and_class >> 2; }
  HYRECALL_HD TileClass tile_class() const { return static_cast<TileClass>(panel_and_class & 3); }
};
HYRECALL_HD inline Visit make_visit(std::uint32_t tile, std::uint32_t panel, TileClass of) {
  return {tile, panel << 2 | static_cast<std::uint32_t>(of)};
}

// Pointers are of one memory, the host's or a device's.
struct DenseBatch {
  SlotRange const* ranges;
  DenseGroup const* groups;
  TileRun const* runs;  // of groups and of cohorts
  Cohort const* cohorts;
  std::uint32_t const* visit_begins;  // [n_cohorts + 1] of each cohort, a visit a tile and panel
  Panel const* panels;
  std::uint32_t const* panel_queries;  // number of the query in the batch
  std::uint16_t const* panel_places;   // of its group among the panel's
  std::uint32_t const* panel_groups;
  WidePanel const* wides;
  std::uint32_t const* query_groups;  // [n_queries] kNone32: it reads nothing
  std::uint32_t const* guess_ranks;   // [n_queries] 0: no guess
  std::uint32_t const* orphans;       // queries in no panel
  std::uint32_t n_cohorts;
  std::uint32_t n_panels;
  std::uint32_t n_wides;
  std::uint32_t n_queries;
  std::uint32_t n_orphans;
  std::uint32_t n_plane_queries;  // the widths of all panels
  // Entries of the lists of visits.
  std::uint32_t n_first;
  std::uint32_t n_rest;
  std::uint32_t n_wide;
};

// The first i of [low, high) that is not before what is looked for; high: all are.
template <typename IsBefore>
HYRECALL_HD inline std::uint32_t find_first(std::uint32_t low, std::uint32_t high,
                                            IsBefore&& is_before) {
  while (low < high) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (is_before(middle)) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// The last i of [0, n) with begins[i] <= wanted; begins[0] <= wanted.
template <typename Begin>
HYRECALL_HD inline std::uint32_t find_last(std::uint32_t n, std::uint32_t wanted, Begin&& begin) {
  std::uint32_t low = 0;
  std::uint32_t high = n;
  while (high - low > 1) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (begin(middle) <= wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}
HYRECALL_HD inline std::uint32_t find_run(std::uint32_t const* begins, std::uint32_t n,
                                          std::uint32_t wanted) {
  return find_last(n, wanted, [begins](std::uint32_t i) { return begins[i]; });
}

// A tile of a list, by how many come before it.
HYRECALL_HD inline std::uint32_t tile_at(TileRun const* runs, std::uint32_t n,
                                         std::uint32_t position) {
  TileRun const run = runs[find_last(n, position, [runs](auto i) { return runs[i].position; })];
  return run.tile + (position - run.position);
}
// How many of the stride's multiples come before one of them.
HYRECALL_HD inline std::uint32_t first_before(TileRun const* runs, std::uint32_t n,
                                              std::uint32_t stride, std::uint32_t tile) {
  TileRun const run = runs[find_last(n, tile, [runs](auto i) { return runs[i].tile; })];
  return run.first + (tile - next_multiple(run.tile, stride)) / stride;
}

// Which slot a place is, of those that a query of a group with stride 1 has.
HYRECALL_HD inline std::uint32_t slot_of_place(DenseBatch const& batch, DenseGroup const& group,
                                               std::uint32_t place) {
  return tile_at(batch.runs + group.run_begin, group.n_runs, place / kTileRows) * kTileRows +
         place % kTileRows;
}

// The rows of a tile that lie in rising ranges of slots.
HYRECALL_HD inline TileMask mask_of_ranges(SlotRange const* ranges, std::uint32_t n,
                                           std::uint32_t tile) {
  std::uint32_t const first = tile * kTileRows;
  // The first range that ends after the tile's first row.
  std::uint32_t low = find_first(0, n, [=](std::uint32_t i) { return ranges[i].end <= first; });
  TileMask mask;
  for (; low < n && ranges[low].begin < first + kTileRows; ++low) {
    std::uint32_t const begin = ranges[low].begin > first ? ranges[low].begin - first : 0;
    std::uint32_t const end = ranges[low].end - first;
    mask = mask | TileMask::range(begin, end < kTileRows ? end : kTileRows);
  }
  return mask;
}

}  // namespace hyrecall
