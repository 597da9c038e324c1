// From sums to candidates: what every first pass does with the products of a panel and a tile.
#pragma once

#include <cstring>

#include "kernels/cuda/visits.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {

// What ScoreTest::may_reach() errs by, at most: seven roundings of values below 8.
inline constexpr float kQuickSlack = 0x1p-17f;

// The queries of a visit's panel as the test of scores wants them, and what its groups may see.
template <int kWidth>
struct PanelConstants {
  TileMask masks[kWidth];        // of the panel's groups
  FourFloats tests[kWidth / 2];  // of two columns each: factor and cut of quick_test()
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
    float const cut = is_there ? job.cuts[query] : __builtin_inff();
    float const scale = is_there ? job.query_scales[query] : 0.0f;
    float const factor = is_there ? job.bounds[query].per_residual : 0.0f;
    to.cuts[column] = cut;
    to.scales[column] = scale;
    to.factors[column] = factor;
    bool const has_factor = job.plane == FirstPassPlane::kInt8 && is_there;
    float const per_factor = has_factor ? 1.0f / factor : 1.0f;
    to.tests[column / 2].values[column % 2 * 2] = scale * per_factor;
    to.tests[column / 2].values[column % 2 * 2 + 1] = cut * per_factor - kQuickSlack;
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

// What the first pass knows of the two rows of which a lane has sums: l / 4 and + 8 of lane l.
struct RowConstants {
  float scales[2];     // an inverse norm in 16-bit planes
  float residuals[2];  // 0 in 16-bit planes
};

template <typename Kind>
__device__ inline RowConstants load_rows(DenseJob const& job, QueuedVisit const& visit,
                                         std::uint32_t first_row) {
  DenseSegment const& own = job.segments[visit.segment];
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
  RowConstants out;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    std::uint32_t const row = first + first_row + lane_id() / 4 + 8 * i;
    // Rows past the end are in no mask; their numbers must only be readable.
    std::uint32_t const at = row < own.n_rows ? row : first;
    constexpr bool kIsInt8 = std::is_same_v<Kind, Int8>;
    out.scales[i] = kIsInt8 ? own.scales[at] : own.inverse_norms[at];
    out.residuals[i] = kIsInt8 ? own.residuals[at] : 0.0f;
  }
  return out;
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
                       QueuedVisit const& visit, RowConstants const& rows, std::uint32_t first_row,
                       std::uint32_t first_query, PendingCandidates& pending,
                       std::uint32_t n_pending)
      : job_(job),
        constants_(constants),
        visit_(visit),
        rows_(rows),
        first_row_(first_row),
        first_query_(first_query),
        pending_(pending),
        n_pending_(n_pending) {}

  // Returns how many candidates are pending.
  template <int kBlocks>
  __device__ std::uint32_t run(Sum const (&sums)[kBlocks][4]) {
    static_assert(kBlocks <= 32, "a bit a block");
    FourFloats const* const tests = constants_.tests + first_query_ / 2 + lane_id() % 4;
    std::uint32_t blocks = 0;                        // with a sum that passes
    constexpr int kStep = kBlocks % 4 == 0 ? 4 : 1;  // blocks a branch
#pragma unroll
    for (int n = 0; n < kBlocks; n += kStep) {
      bool any[kStep] = {};
#pragma unroll
      for (int m = 0; m < kStep; ++m) {
        FourFloats const test = tests[4 * (n + m)];
#pragma unroll
        for (int i = 0; i < 4; ++i) any[m] |= may_reach(sums[n + m][i], i / 2, test, i % 2);
      }
      bool of_all = false;
#pragma unroll
      for (bool const one : any) of_all |= one;
      if (ballot(of_all) == 0) continue;
#pragma unroll
      for (int m = 0; m < kStep; ++m) {
        std::uint32_t const found = ballot(any[m]);
        blocks |= (found != 0 ? 1u : 0u) << (n + m);
        copy(found, any[m], sums[n + m], n + m);
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

  // No less than reaches(): both are divided by the query's factor, and kQuickSlack pays for the
  // roundings. A score here costs a conversion, a product, an fma and a comparison.
  __device__ bool may_reach(Sum sum, int row, FourFloats const& test, int column) const {
    float const scaled = static_cast<float>(sum) * rows_.scales[row];
    float const cut = test.values[2 * column + 1];
    if constexpr (!std::is_same_v<Kind, Int8>) return scaled >= cut;
    return fma_rn(scaled, test.values[2 * column], rows_.residuals[row]) >= cut;
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
      // The lane that had the sum knows the row.
      float const scales[2] = {shuffle(rows_.scales[0], of), shuffle(rows_.scales[1], of)};
      float const residuals[2] = {shuffle(rows_.residuals[0], of), shuffle(rows_.residuals[1], of)};
      float const residual = i < 2 ? residuals[0] : residuals[1];
      Sum sum;
      std::memcpy(&sum, &pending_.sums[at][i], sizeof sum);
      float const score = score_of(sum, i < 2 ? scales[0] : scales[1], column);
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
  RowConstants const rows_;
  std::uint32_t const first_row_;
  std::uint32_t const first_query_;
  PendingCandidates& pending_;
  std::uint32_t n_pending_;
  std::uint32_t n_sums_ = 0;
};

}  // namespace hyrecall::cuda
