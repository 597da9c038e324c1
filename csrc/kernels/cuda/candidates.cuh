// From sums to candidates: what every first pass does with the products of a panel and a tile.
#pragma once

#include <cstring>

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
  // Sums of which at least one passes, four of a lane; then its lane and the number of its block.
  alignas(16) std::uint32_t sums[kWarp][4];
  std::uint32_t places[kWarp];
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

// The sums of a panel and 16 rows of a tile, as a warp holds them: lane l has rows l / 4 and + 8,
// and of each eight queries numbers 2 (l mod 4) and + 1. A row whose score reaches its query's cut
// becomes a candidate, known by its lower score, if the query may see it.
//
// Few sums pass. So the test of all of them only copies those of a lane that has one; then the
// lanes make candidates of the copies side by side. If more lanes have one than there is room for,
// as in the seed, that is done block by block instead.
template <typename Kind, int kWidth, typename Sum>
class ScoreTest {
 public:
  __device__ ScoreTest(DenseJob const& job, PanelConstants<kWidth> const& constants,
                       QueuedVisit const& visit, std::uint32_t first_row, std::uint32_t first_query,
                       PendingCandidates& pending, std::uint32_t n_pending)
      : job_(job),
        constants_(constants),
        visit_(visit),
        own_(job.segments[visit.segment]),
        first_((visit.tile - own_.first_tile) * kTileRows),
        first_row_(first_row),
        first_query_(first_query),
        pending_(pending),
        n_pending_(n_pending) {}

  // Returns how many candidates are pending.
  template <int kBlocks>
  __device__ std::uint32_t run(Sum const (&sums)[kBlocks][4]) {
    static_assert(kBlocks <= 32, "a bit a block");
    std::uint32_t const row = first_row_ + lane_id() / 4;
    std::uint32_t const own_query = first_query_ + lane_id() % 4 * 2;
    float const scales[2] = {scale_of(row), scale_of(row + 8)};
    float const residuals[2] = {residual_of(row), residual_of(row + 8)};
    std::uint32_t blocks = 0;  // with a sum that passes
#pragma unroll
    for (int n = 0; n < kBlocks; ++n) {
      bool any = false;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t const column = own_query + 8 * n + i % 2;
        float const score = score_of(sums[n][i], scales[i / 2], column);
        any = any || reaches(score, residuals[i / 2], column);
      }
      if (std::uint32_t const found = ballot(any); found != 0) {
        blocks |= 1u << n;
        copy(found, any, sums[n], n);
      }
    }
    if (n_sums_ <= kWarp) {
      blocks = 0;  // all are copied
    } else {
      sync_warp();  // nobody writes these copies any more
      n_sums_ = 0;
    }
    while (true) {
      make_candidates();
      if (blocks == 0) break;
      std::uint32_t const block = lowest_bit(blocks);
      blocks &= blocks - 1;
      Sum left[4] = {};
#pragma unroll
      for (int n = 0; n < kBlocks; ++n) {
        if (block != static_cast<std::uint32_t>(n)) continue;
#pragma unroll
        for (int i = 0; i < 4; ++i) left[i] = sums[n][i];
      }
      copy(~0u, true, left, block);
    }
    return n_pending_;
  }

 private:
  // Rows past the end are in no mask; their numbers must only be readable.
  __device__ std::uint32_t place_of(std::uint32_t row) const {
    return first_ + row < own_.n_rows ? first_ + row : first_;
  }
  __device__ float scale_of(std::uint32_t row) const {
    std::uint32_t const at = place_of(row);
    return std::is_same_v<Kind, Int8> ? own_.scales[at] : own_.inverse_norms[at];
  }
  __device__ float residual_of(std::uint32_t row) const {
    std::uint32_t const at = place_of(row);
    return std::is_same_v<Kind, Int8> ? own_.residuals[at] : 0.0f;
  }
  __device__ float score_of(Sum sum, float scale, std::uint32_t column) const {
    if constexpr (std::is_same_v<Kind, Int8>) {
      return first_pass_score(sum, scale, constants_.scales[column]);
    } else {
      return first_pass_score(sum, scale);
    }
  }
  __device__ bool reaches(float score, float residual, std::uint32_t column) const {
    if constexpr (std::is_same_v<Kind, Int8>) {
      return reach(score, residual, constants_.factors[column]) >= constants_.cuts[column];
    } else {
      return score >= constants_.cuts[column];
    }
  }

  // Copies the sums of the lanes in `found`, of which this may be one, as far as there is room.
  __device__ void copy(std::uint32_t found, bool is_own, Sum const (&sums)[4],
                       std::uint32_t block) {
    std::uint32_t const at = n_sums_ + popcount(found & ((1u << lane_id()) - 1));
    if (is_own && at < kWarp) {
      std::memcpy(pending_.sums[at], sums, sizeof sums);
      pending_.places[at] = block * kWarp + lane_id();
    }
    n_sums_ += popcount(found);
  }

  // Makes candidates of the sums copied that pass and whose query may see the row.
  __device__ void make_candidates() {
    std::uint32_t const lane = lane_id();
    bool const is_full = visit_.tile_class == TileClass::kFull;
    bool const is_seed = visit_.number != kNone32;
    std::uint32_t const n = 4 * n_sums_;
    if (n == 0) return;
    sync_warp();  // all copies are there
    for (std::uint32_t begin = 0; begin < n; begin += kWarp) {
      bool const is_there = begin + lane < n;
      std::uint32_t const at = is_there ? (begin + lane) / 4 : 0;
      std::uint32_t const i = lane % 4;  // of the four sums
      std::uint32_t const place = pending_.places[at];
      std::uint32_t const of = place % kWarp;  // the lane that had it
      std::uint32_t const row = first_row_ + of / 4 + i / 2 * 8;
      std::uint32_t const column = first_query_ + of % 4 * 2 + place / kWarp * 8 + i % 2;
      Sum sum;
      std::memcpy(&sum, &pending_.sums[at][i], sizeof sum);
      float const residual = residual_of(row);
      float const score = score_of(sum, scale_of(row), column);
      bool is_kept = is_there && reaches(score, residual, column);
      if (is_kept && !is_full) is_kept = constants_.masks[constants_.places[column]].test(row);
      std::uint32_t const query = constants_.queries[column];
      float const lower = lower_score(score, residual, constants_.factors[column]);
      std::uint64_t const key = candidate_key(lower, visit_.tile * kTileRows + row);
      if (is_seed) {  // where a row has its place
        if (is_kept)
          job_.seeds[std::size_t{query} * job_.most_seed_rows + constants_.seeds[column] + row] =
              key;
        continue;
      }
      std::uint32_t const kept = ballot(is_kept);
      if (n_pending_ + popcount(kept) > kPending) {
        write_pending(job_, pending_, n_pending_);
        n_pending_ = 0;
      }
      if (is_kept) {
        std::uint32_t const to = n_pending_ + popcount(kept & ((1u << lane) - 1));
        pending_.keys[to] = key;
        pending_.queries[to] = query;
      }
      n_pending_ += popcount(kept);
    }
    sync_warp();  // all copies have been read
    n_sums_ = 0;
  }

  DenseJob const& job_;
  PanelConstants<kWidth> const& constants_;
  QueuedVisit const& visit_;
  DenseSegment const& own_;
  std::uint32_t const first_;
  std::uint32_t const first_row_;
  std::uint32_t const first_query_;
  PendingCandidates& pending_;
  std::uint32_t n_pending_;
  std::uint32_t n_sums_ = 0;
};

}  // namespace hyrecall::cuda
