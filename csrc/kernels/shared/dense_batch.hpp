// A batch of queries as a dense pass reads it: flat arrays, the same on host and device.
//
// Rows of all segments stand in one row of *slots*: a segment begins at a multiple of kTileRows, so
// slot / kTileRows is a tile of the snapshot. Queries of one scope and one filter are a *group*;
// queries that read the same tiles are a *cohort*, so that each tile is read once for all of them;
// a *panel* is as many of a cohort's queries as go through the matrix units together.
#pragma once

#include <cstdint>

#include "core/types.hpp"
#include "kernels/shared/dense_stages.hpp"

namespace hyrecall {

struct SlotRange {
  std::uint32_t begin;
  std::uint32_t end;
};

// What queries of a group may see: slots in its ranges (rising, apart) that pass its filter.
struct DenseGroup {
  std::uint32_t range_begin;
  std::uint32_t n_ranges;
  std::uint32_t filter;  // kNone32: none
};

// Consecutive tiles at consecutive positions.
struct TileRun {
  std::uint32_t tile;
  std::uint32_t position;
};

struct Cohort {
  std::uint32_t run_begin;
  std::uint32_t n_runs;
  std::uint32_t position_begin;  // its positions are no other cohort's
  std::uint32_t position_end;
  std::uint32_t panel_begin;
  std::uint32_t n_panels;
  Sampling sampling;  // of every query in it
};

struct Panel {
  std::uint32_t query_begin;  // into panel_queries, panel_places and panel_seeds
  std::uint32_t n_queries;    // at most its cohort's width
  std::uint32_t group_begin;  // into panel_groups
  std::uint32_t n_groups;
  std::uint32_t plane_begin;  // its first place among the panels' queries, each panel as wide as it
  std::uint32_t width;        // may be
};

// Cohorts of one width: those of each width stand together.
struct WidthClass {
  std::uint32_t width;  // queries of a panel, at most
  std::uint32_t cohort_begin;
  std::uint32_t cohort_end;
  // Into visit_begins: per stage n_cohorts + 1 rising numbers; a visit is one panel at one tile.
  std::uint32_t visit_table;
};

inline constexpr int kMaxWidths = 4;

// Where a job has the panels of a width, so that a scan finds its own. The widths that a device has
// kernels for (8, 32, 64; or 8, 32, 128, 256) are apart.
constexpr std::uint32_t width_place(std::uint32_t width) {
  return width <= 8 ? 0 : width <= 32 ? 1 : width <= 128 ? 2 : 3;
}

// Pointers are of one memory, the host's or a device's.
struct DenseBatch {
  SlotRange const* ranges;
  DenseGroup const* groups;
  TileRun const* runs;
  Cohort const* cohorts;
  Panel const* panels;
  std::uint32_t const* panel_queries;  // number of the query in the batch
  std::uint16_t const* panel_places;   // of its group among the panel's
  // Where the query's candidates of the cohort's seed begin: a place a row, tile after tile.
  std::uint32_t const* panel_seeds;
  std::uint32_t const* panel_groups;
  std::uint32_t const* visit_begins;
  WidthClass widths[kMaxWidths];
  std::uint32_t n_widths;
  std::uint32_t const* seed_rows;    // [n_queries] places of each in its seed
  std::uint32_t const* guess_ranks;  // [n_queries] 0: no guess
  std::uint32_t n_stages;
  std::uint32_t stride;  // of samples
  std::uint32_t n_queries;
  std::uint32_t n_panels;
  std::uint32_t n_plane_queries;  // the widths of all panels
};

// A panel at a tile.
struct Visit {
  std::uint32_t tile;
  std::uint32_t panel;
  std::uint32_t number;  // of the tile, among those that the cohort reads in this stage
};

// The last i of [0, n) with begins[i] <= wanted; begins[0] <= wanted.
HYRECALL_HD inline std::uint32_t find_run(std::uint32_t const* begins, std::uint32_t n,
                                          std::uint32_t wanted) {
  std::uint32_t low = 0;
  std::uint32_t high = n;
  while (high - low > 1) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (begins[middle] <= wanted) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return low;
}

// Visits of a stage are numbered tile by tile, all panels of a cohort at a tile one after another,
// so that they find its rows in cache.
HYRECALL_HD inline std::uint32_t const* stage_begins(DenseBatch const& batch,
                                                     WidthClass const& width, std::uint32_t stage) {
  return batch.visit_begins + width.visit_table +
         stage * (width.cohort_end - width.cohort_begin + 1);
}

HYRECALL_HD inline std::uint32_t n_visits(DenseBatch const& batch, WidthClass const& width,
                                          std::uint32_t stage) {
  return stage_begins(batch, width, stage)[width.cohort_end - width.cohort_begin];
}

HYRECALL_HD inline Visit find_visit(DenseBatch const& batch, WidthClass const& width,
                                    std::uint32_t stage, std::uint32_t visit) {
  std::uint32_t const* const begins = stage_begins(batch, width, stage);
  std::uint32_t const at = find_run(begins, width.cohort_end - width.cohort_begin, visit);
  Cohort const& cohort = batch.cohorts[width.cohort_begin + at];
  std::uint32_t const i = visit - begins[at];
  std::uint32_t const number = i / cohort.n_panels;
  std::uint32_t const position = position_in_step(stage_step(batch.stride, cohort.sampling, stage),
                                                  cohort.position_begin, number);
  std::uint32_t low = 0;
  std::uint32_t high = cohort.n_runs;
  TileRun const* const runs = batch.runs + cohort.run_begin;
  while (high - low > 1) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (runs[middle].position <= position) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return {runs[low].tile + (position - runs[low].position),
          cohort.panel_begin + i % cohort.n_panels, number};
}

// The rows of a tile that lie in rising ranges of slots.
HYRECALL_HD inline TileMask mask_of_ranges(SlotRange const* ranges, std::uint32_t n,
                                           std::uint32_t tile) {
  std::uint32_t const first = tile * kTileRows;
  std::uint32_t low = 0;  // the first range that ends after the tile's first row
  std::uint32_t high = n;
  while (low < high) {
    std::uint32_t const middle = low + (high - low) / 2;
    if (ranges[middle].end <= first) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  TileMask mask;
  for (; low < n && ranges[low].begin < first + kTileRows; ++low) {
    std::uint32_t const begin = ranges[low].begin > first ? ranges[low].begin - first : 0;
    std::uint32_t const end = ranges[low].end - first;
    mask = mask | TileMask::range(begin, end < kTileRows ? end : kTileRows);
  }
  return mask;
}

}  // namespace hyrecall
