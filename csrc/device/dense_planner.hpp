// From scopes to cohorts and panels: who reads which tiles together
// (kernels/shared/dense_batch.hpp).
#pragma once

#include <span>
#include <vector>

#include "kernels/settings.hpp"
#include "kernels/shared/dense_batch.hpp"

namespace hyrecall {

// Few queries have room for many candidates each, and so for few stages.
DenseTuning choose_tuning(std::size_t n_queries, std::size_t depth);
// Of a lexical scan, of whose document tiles each has at most 2 x depth candidates of a query,
// equal scores apart.
DenseTuning choose_lexical_tuning(std::size_t n_queries, std::size_t depth);

struct DensePlanInput {
  std::span<std::vector<SlotRange> const> scopes;  // each rising, apart, not empty ranges
  std::span<std::uint32_t const> group_scopes;     // [n_groups]
  std::span<std::uint32_t const> group_filters;    // [n_groups], kNone32: none
  std::span<std::uint32_t const> group_of;         // [n_queries], kNone32: the query reads nothing
  std::span<std::uint32_t const> widths;           // of panels, rising; at most kMaxWidths
  DenseTuning tuning;
  std::uint32_t tile_rows = kTileRows;  // slots of a tile that is read at once
};

class DensePlan {
 public:
  explicit DensePlan(DensePlanInput const& input);

  // Points into this plan.
  DenseBatch batch() const;
  // How many queries a tile serves when it is read, on average.
  double queries_per_tile() const;

  std::vector<SlotRange> ranges;
  std::vector<DenseGroup> groups;
  std::vector<TileRun> runs;
  std::vector<Cohort> cohorts;
  std::vector<Panel> panels;
  std::vector<std::uint32_t> panel_queries;
  std::vector<std::uint16_t> panel_places;
  std::vector<std::uint32_t> panel_groups;
  std::vector<std::uint32_t> visit_begins;
  std::vector<WidthClass> widths;
  std::uint32_t n_stages = 1;
  std::uint32_t growth = 2;
  std::uint32_t n_queries = 0;
  std::uint32_t n_tiles = 0;  // read, each once a cohort
  std::uint32_t n_plane_queries = 0;

 private:
  struct Interval {  // tiles [begin, end) with one set of scopes over them
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t crowd;  // number of that set
  };
  struct Crowds {
    std::vector<Interval> intervals;
    std::vector<std::vector<std::uint32_t>> scopes;  // [crowd] rising
  };

  static Crowds find_crowds(std::span<std::vector<TileRun> const> tiles);
  void add_cohort(std::span<Interval const> intervals, std::span<std::uint32_t const> queries,
                  std::span<std::uint32_t const> group_of, std::uint32_t width,
                  std::uint32_t level);
  void add_visits();
};

}  // namespace hyrecall
