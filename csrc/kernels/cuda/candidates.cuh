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
  std::uint32_t seeds[kWidth];   // where the tile's rows stand in the query's seed
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
    bool const is_seed = is_there && visit.number != kNone32;
    to.seeds[column] = is_seed ? job.batch.panel_seeds[at] + visit.number * kTileRows : kNone32;
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

// What a warp has found and not written yet. Only this warp touches it.
inline constexpr std::uint32_t kPending = 64;
struct PendingCandidates {
  std::uint64_t keys[kPending];
  std::uint32_t queries[kPending];
};

// Appends n of them to the candidates of their queries: their atomic operations run side by side,
// one for all of a query.
__device__ inline void write_pending(DenseJob const& job, PendingCandidates const& pending,
                                     std::uint32_t n) {
  sync_warp();  // all are there
  std::uint32_t const lane = lane_id();
  for (std::uint32_t begin = 0; begin < n; begin += kWarp) {
    bool const is_there = begin + lane < n;
    std::uint32_t const query = is_there ? pending.queries[begin + lane] : kNone32;
    std::uint64_t const key = is_there ? pending.keys[begin + lane] : 0;
    std::uint32_t const same = match(query);
    std::uint32_t const asks = lowest_bit(same);
    std::uint32_t place = 0;
    if (is_there && lane == asks) place = atomicAdd(&job.counts[query], popcount(same));
    place = shuffle(place, asks) + popcount(same & ((1u << lane) - 1));
    if (is_there && place < job.capacity)
      job.candidates[std::size_t{query} * job.capacity + place] = key;
  }
  sync_warp();  // all have been read
}

// A row whose score reaches its query's cut becomes a candidate, known by its lower score, if the
// query may see it.
template <int kWidth>
__device__ inline void append(DenseJob const& job, PanelConstants<kWidth> const& constants,
                              QueuedVisit const& visit, bool reaches, float lower,
                              std::uint32_t row, std::uint32_t column, PendingCandidates& pending,
                              std::uint32_t& n_pending) {
  bool const is_full = visit.tile_class == TileClass::kFull;
  if (reaches && !is_full) reaches = constants.masks[constants.places[column]].test(row);
  std::uint32_t const query = constants.queries[column];
  std::uint64_t const key = candidate_key(lower, visit.tile * kTileRows + row);
  if (visit.number != kNone32) {  // in the seed a row has its place
    if (reaches)
      job.seeds[std::size_t{query} * job.most_seed_rows + constants.seeds[column] + row] = key;
    return;
  }
  std::uint32_t const found = ballot(reaches);
  std::uint32_t const n = popcount(found);
  if (n_pending + n > kPending) {
    write_pending(job, pending, n_pending);
    n_pending = 0;
  }
  std::uint32_t const at = n_pending + popcount(found & ((1u << lane_id()) - 1));
  if (reaches) {
    pending.keys[at] = key;
    pending.queries[at] = query;
  }
  n_pending += n;
}

// The sums of 16 rows of the tile with 8 x kBlocks queries of the panel, as a warp holds them: lane
// l has rows l / 4 and + 8, and of each eight queries numbers 2 (l mod 4) and + 1.
template <typename Kind, int kWidth, int kBlocks, typename Sum>
__device__ inline void test_scores(DenseJob const& job, PanelConstants<kWidth> const& constants,
                                   QueuedVisit const& visit, std::uint32_t first_row,
                                   std::uint32_t first_query, Sum const (&sums)[kBlocks][4],
                                   PendingCandidates& pending, std::uint32_t& n_pending) {
  static_assert(kBlocks <= 32, "a bit a block");
  DenseSegment const& own = job.segments[visit.segment];
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
  std::uint32_t const row = first_row + lane_id() / 4;
  std::uint32_t const own_query = first_query + lane_id() % 4 * 2;
  float scales[2];
  float residuals[2];
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    // Rows past the end are in no mask; their numbers must only be readable.
    std::uint32_t const at = first + row + 8 * i < own.n_rows ? first + row + 8 * i : first;
    scales[i] = std::is_same_v<Kind, Int8> ? own.scales[at] : own.inverse_norms[at];
    residuals[i] = std::is_same_v<Kind, Int8> ? own.residuals[at] : 0.0f;
  }
  auto const score_of = [&](Sum sum, float scale, std::uint32_t column) {
    if constexpr (std::is_same_v<Kind, Int8>) {
      return first_pass_score(sum, scale, constants.scales[column]);
    } else {
      return first_pass_score(sum, scale);
    }
  };
  auto const reaches = [&](float score, float residual, std::uint32_t column) {
    if constexpr (std::is_same_v<Kind, Int8>) {
      return reach(score, residual, constants.factors[column]) >= constants.cuts[column];
    } else {
      return score >= constants.cuts[column];
    }
  };
  // Few blocks have a score that passes: what is done with those stands here once, not once a
  // block.
  std::uint32_t blocks = 0;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
    bool any = false;
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      std::uint32_t const column = own_query + 8 * n + i % 2;
      float const score = score_of(sums[n][i], scales[i / 2], column);
      any = any || reaches(score, residuals[i / 2], column);
    }
    if (ballot(any) != 0) blocks |= 1u << n;
  }
  for (; blocks != 0; blocks &= blocks - 1) {
    std::uint32_t const block = lowest_bit(blocks);
    Sum left[4] = {};
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      if (block != static_cast<std::uint32_t>(n)) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) left[i] = sums[n][i];
    }
#pragma unroll 1
    for (std::uint32_t i = 0; i < 4; ++i) {
      std::uint32_t const column = own_query + 8 * block + i % 2;
      float const residual = i < 2 ? residuals[0] : residuals[1];
      float const score = score_of(left[0], i < 2 ? scales[0] : scales[1], column);
      float const lower = lower_score(score, residual, constants.factors[column]);
      append(job, constants, visit, reaches(score, residual, column), lower, row + i / 2 * 8,
             column, pending, n_pending);
      left[0] = left[1];
      left[1] = left[2];
      left[2] = left[3];
    }
  }
}

}  // namespace hyrecall::cuda
