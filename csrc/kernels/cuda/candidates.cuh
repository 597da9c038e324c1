// From sums to candidates: what every first pass does with the products of a panel and a tile.
#pragma once

#include "kernels/cuda/visits.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {

// The queries of a visit's panel as the test of scores wants them, and what its groups may see.
template <int kWidth>
struct PanelConstants {
  TileMask masks[kWidth];  // of the panel's groups
  float cuts[kWidth];
  float scales[kWidth];
  float factors[kWidth];
  std::uint32_t queries[kWidth];
  std::uint32_t places[kWidth];  // of the query's group among the panel's
};

// By n_threads threads, whole warps, of which this is number `thread`.
template <int kWidth>
__device__ inline void load_constants(DenseJob const& job, QueuedVisit const& visit,
                                      std::uint32_t thread, std::uint32_t n_threads,
                                      PanelConstants<kWidth>& to) {
  Panel const panel = job.batch.panels[visit.panel];
  for (std::uint32_t column = thread; column < kWidth; column += n_threads) {
    bool const is_there = column < panel.n_queries;
    std::uint32_t const at = panel.query_begin + column;
    std::uint32_t const query = is_there ? job.batch.panel_queries[at] : 0;
    to.queries[column] = query;
    to.places[column] = is_there ? job.batch.panel_places[at] : 0;
    to.cuts[column] = is_there ? job.cuts[query] : __builtin_inff();
    to.scales[column] = is_there ? job.query_scales[query] : 0.0f;
    to.factors[column] = is_there ? job.bounds[query].per_residual : 0.0f;
  }
  if (visit.tile_class == TileClass::kFull) return;
  for (std::uint32_t i = thread / kWarp; i < panel.n_groups; i += n_threads / kWarp) {
    TileMask const mask = group_mask(job, visit, job.batch.panel_groups[panel.group_begin + i]);
    if (lane_id() == 0) to.masks[i] = mask;
  }
}

// A row whose score reaches its query's cut becomes a candidate, known by its lower score, if the
// query may see it. Lanes of a warp
// that hold the same query (those with equal lane mod 4) append together.
template <int kWidth>
__device__ inline void append(DenseJob const& job, PanelConstants<kWidth> const& constants,
                              bool is_full, bool reaches, float lower, std::uint32_t tile,
                              std::uint32_t row, std::uint32_t column) {
  if (reaches && !is_full) reaches = constants.masks[constants.places[column]].test(row);
  std::uint32_t const lane = lane_id();
  std::uint32_t const mine = ballot(reaches) & (0x11111111u << lane % 4);
  std::uint32_t const query = constants.queries[column];
  std::uint32_t place = 0;
  // The lowest lane asks for room for all.
  std::uint32_t const asks = mine != 0 ? lowest_bit(mine) : lane;
  if (reaches && lane == asks) place = atomicAdd(&job.counts[query], popcount(mine));
  place = shuffle(place, asks) + popcount(mine & ((1u << lane) - 1));
  if (reaches && place < job.capacity) {
    job.candidates[std::size_t{query} * job.capacity + place] =
        candidate_key(lower, tile * kTileRows + row);
  }
}

// The sums of 16 rows of the tile with 8 x kBlocks queries of the panel, as a warp holds them: lane
// l has rows l / 4 and + 8, and of each eight queries numbers 2 (l mod 4) and + 1.
template <typename Kind, int kWidth, int kBlocks, typename Sum>
__device__ inline void test_scores(DenseJob const& job, PanelConstants<kWidth> const& constants,
                                   QueuedVisit const& visit, std::uint32_t first_row,
                                   std::uint32_t first_query, Sum const (&sums)[kBlocks][4]) {
  DenseSegment const& own = job.segments[visit.segment];
  bool const is_full = visit.tile_class == TileClass::kFull;
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
  std::uint32_t const row = first_row + lane_id() / 4;
  float scales[2];
  float residuals[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Rows past the end are in no mask; their numbers must only be readable.
    std::uint32_t const at = first + row + 8 * i < own.n_rows ? first + row + 8 * i : first;
    scales[i] = std::is_same_v<Kind, Int8> ? own.scales[at] : own.inverse_norms[at];
    residuals[i] = std::is_same_v<Kind, Int8> ? own.residuals[at] : 0.0f;
  }
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    float scores[4];
    bool reaches[4];
    bool any = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::uint32_t const column = first_query + 8 * n + lane_id() % 4 * 2 + i % 2;
      if constexpr (std::is_same_v<Kind, Int8>) {
        scores[i] = first_pass_score(sums[n][i], scales[i / 2], constants.scales[column]);
        reaches[i] =
            reach(scores[i], residuals[i / 2], constants.factors[column]) >= constants.cuts[column];
      } else {
        scores[i] = first_pass_score(sums[n][i], scales[i / 2]);
        reaches[i] = scores[i] >= constants.cuts[column];
      }
      any = any || reaches[i];
    }
    if (ballot(any) == 0) continue;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::uint32_t const column = first_query + 8 * n + lane_id() % 4 * 2 + i % 2;
      float const lower = lower_score(scores[i], residuals[i / 2], constants.factors[column]);
      append(job, constants, is_full, reaches[i], lower, visit.tile, row + i / 2 * 8, column);
    }
  }
}

}  // namespace hyrecall::cuda
