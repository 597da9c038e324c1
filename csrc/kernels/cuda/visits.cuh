// Which tiles a CTA reads next: a warp looks at 32 visits at once and keeps those that may hold a
// row for one of their panel's queries, by scope, live bits and zone maps.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

// What a tile is to a panel.
enum class TileClass : std::uint32_t {
  kEmpty,    // no row passes for any query
  kPartial,  // masks decide
  kFull      // every row passes for every query
};

struct QueuedVisit {
  std::uint32_t tile;
  std::uint32_t panel;
  std::uint32_t number;  // of the tile in its cohort's seed; kNone32: after the seed
  std::uint32_t segment;
  TileClass tile_class;
};

inline constexpr std::uint32_t kQueue = 64;  // visits a CTA plans ahead, at most
inline constexpr std::uint32_t kWarp = 32;

struct VisitQueue {
  QueuedVisit visits[kQueue];
  std::uint32_t n;
  std::uint32_t next;  // of the CTA's own visits, to be looked at
};

__device__ inline TileMask live_mask(DenseSegment const& segment, std::uint32_t tile) {
  std::uint32_t const at = 2 * (tile - segment.first_tile);
  return {segment.live[at], segment.live[at + 1]};
}

__device__ inline TileProgramView program_of(DenseJob const& job, std::uint32_t filter,
                                             std::uint32_t segment) {
  SegmentFilter const own = job.filters[filter * job.n_segments + segment];
  return {job.tests + own.test_begin, own.n_tests, job.codes};
}

__device__ inline TileClass classify(DenseJob const& job, Visit visit, std::uint32_t segment) {
  DenseSegment const& own = job.segments[segment];
  TileMask const live = live_mask(own, visit.tile);
  if (!live.any()) return TileClass::kEmpty;
  Panel const panel = job.batch.panels[visit.panel];
  bool all = live.is_all();
  bool any = false;
  for (std::uint32_t i = 0; i < panel.n_groups && (all || !any); ++i) {
    DenseGroup const group = job.batch.groups[job.batch.panel_groups[panel.group_begin + i]];
    TileMask const scope =
        mask_of_ranges(job.batch.ranges + group.range_begin, group.n_ranges, visit.tile) & live;
    ZoneAnswer answer = ZoneAnswer::kAll;
    if (group.filter != kNone32 && scope.any()) {
      answer = zone_answer(program_of(job, group.filter, segment), own.attributes,
                           visit.tile - own.first_tile);
    }
    any = any || (scope.any() && answer != ZoneAnswer::kNone);
    all = all && scope.is_all() && answer == ZoneAnswer::kAll;
  }
  if (!any) return TileClass::kEmpty;
  return all ? TileClass::kFull : TileClass::kPartial;
}

// Fills the queue anew; one warp calls it, between barriers of the CTA.
__device__ inline void refill(DenseJob const& job, WidthClass const& width, std::uint32_t stage,
                              VisitQueue& queue) {
  std::uint32_t const lane = lane_id();
  std::uint32_t const total = n_visits(job.batch, width, stage);
  std::uint32_t n = 0;
  std::uint32_t next = queue.next;
  sync_warp();  // every lane has read it
  while (n <= kQueue - kWarp) {
    std::uint64_t const visit = std::uint64_t{next + lane} * gridDim.x + blockIdx.x;
    QueuedVisit found{0, 0, 0, 0, TileClass::kEmpty};
    if (visit < total) {
      Visit const at = find_visit(job.batch, width, stage, static_cast<std::uint32_t>(visit));
      std::uint32_t const segment = find_run(job.segment_tiles, job.n_segments, at.tile);
      found = {at.tile, at.panel, stage == 0 ? at.number : kNone32, segment,
               classify(job, at, segment)};
    }
    bool const wanted = found.tile_class != TileClass::kEmpty;
    std::uint32_t const kept = ballot(wanted);
    if (wanted) queue.visits[n + popcount(kept & ((1u << lane) - 1))] = found;
    n += popcount(kept);
    next += kWarp;
    if (std::uint64_t{next} * gridDim.x + blockIdx.x >= total) break;
  }
  if (lane == 0) {
    queue.n = n;
    queue.next = next;
  }
}

// The rows of a tile that a group may see: bits lane, lane + 32, ... are tested by that lane. The
// whole warp comes here.
__device__ inline TileMask group_mask(DenseJob const& job, QueuedVisit const& visit,
                                      std::uint32_t group_number) {
  DenseSegment const& own = job.segments[visit.segment];
  DenseGroup const group = job.batch.groups[group_number];
  TileMask mask = mask_of_ranges(job.batch.ranges + group.range_begin, group.n_ranges, visit.tile) &
                  live_mask(own, visit.tile);
  if (group.filter == kNone32 || !mask.any()) return mask;  // the same in every lane
  TileProgramView const program = program_of(job, group.filter, visit.segment);
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
  std::uint32_t words[4];
  for (std::uint32_t i = 0; i < 4; ++i) {
    std::uint32_t const row = i * kWarp + lane_id();
    words[i] = ballot(mask.test(row) && row_passes(program, own.attributes, first + row));
  }
  return {words[0] | std::uint64_t{words[1]} << 32, words[2] | std::uint64_t{words[3]} << 32};
}

}  // namespace hyrecall::cuda
