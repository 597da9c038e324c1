// From scopes to cohorts and panels: who reads which tiles together
// (kernels/shared/dense_batch.hpp).
#pragma once

#include <span>
#include <vector>

#include "core/small_vector.hpp"
#include "device/dense_tuning.hpp"
#include "kernels/shared/dense_batch.hpp"

namespace hyrecall {

using SlotRanges = SmallVector<SlotRange, 1>;  // most scopes are one range

struct DensePlanInput {
  std::span<SlotRanges const> scopes;            // each rising, apart, not empty ranges
  std::span<std::uint32_t const> group_scopes;   // [n_groups]
  std::span<std::uint32_t const> group_filters;  // [n_groups], kNone32: none
  std::span<std::uint32_t const> group_of;       // [n_queries], kNone32: the query reads nothing
  std::span<std::uint32_t const> depths;         // [n_queries]
  DenseTuning tuning;
  std::uint32_t wide_queries = 0;       // that a wide panel holds; 0: there are none
  bool is_lexical = false;              // panels of one query; what is read first is not read again
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
  std::vector<std::uint32_t> visit_begins;
  std::vector<Panel> panels;
  std::vector<std::uint32_t> panel_queries;
  std::vector<std::uint16_t> panel_places;
  std::vector<std::uint32_t> panel_groups;
  std::vector<WidePanel> wides;
  std::vector<std::uint32_t> query_groups;
  std::vector<std::uint32_t> guess_ranks;
  std::vector<std::uint32_t> orphans;
  std::uint32_t most_whole_tiles = 0;   // of a query that reads all of its tiles first
  std::uint32_t most_sample_tiles = 0;  // that another query reads first
  std::uint32_t n_tiles = 0;            // read, each once a cohort
  std::uint32_t n_plane_queries = 0;
  std::uint32_t n_first = 0;
  std::uint32_t n_rest = 0;
  std::uint32_t n_wide = 0;
  std::uint32_t wide_panels = 1;

 private:
  struct Interval {  // tiles [begin, end) with one set of scopes over them
    std::uint32_t begin;
    std::uint32_t end;
    std::uint32_t crowd;  // number of that set
  };
  // Lists in one block: list i is [begins[i], begins[i + 1]) of all.
  template <typename T>
  struct Lists {
    std::vector<T> all;
    std::vector<std::uint32_t> begins{0};

    std::size_t size() const { return begins.size() - 1; }
    void end_list() { begins.push_back(static_cast<std::uint32_t>(all.size())); }
    std::span<T const> operator[](std::size_t i) const {
      return std::span(all).subspan(begins[i], begins[i + 1] - begins[i]);
    }
  };
  struct Crowds {
    std::vector<Interval> intervals;
    Lists<std::uint32_t> scopes;  // [crowd] rising
  };
  // What a scope reads.
  struct Reading {
    std::uint32_t run_begin;
    std::uint32_t n_runs;
    std::uint32_t n_tiles;
    std::uint32_t stride;
    std::uint32_t n_first;
  };

  static Crowds find_crowds(Lists<TileRun> const& tiles);
  static void join_neighbours(std::vector<Interval>& intervals);
  static Lists<std::uint32_t> queries_by_scope(DensePlanInput const& input);
  Reading read_scope(std::span<TileRun const> tiles, std::span<std::uint32_t const> queries,
                     DensePlanInput const& input);
  void add_cohort(std::span<Interval const> intervals, std::span<std::uint32_t const> queries,
                  DensePlanInput const& input);
  void add_panels(std::span<std::uint32_t const> queries, std::span<std::uint32_t const> group_of,
                  bool is_lexical);
  void add_wides(Cohort& cohort, std::uint32_t wide_queries);
};

}  // namespace hyrecall
