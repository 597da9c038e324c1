// From sums to scores and candidates: what every first pass does with the products of a panel and a
// tile.
#pragma once

#include <cstring>

#include "kernels/cuda/visits.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {

// What ScoreTest::may_reach() errs by, at most: seven roundings of values below 8.
inline constexpr float kQuickSlack = 0x1p-17f;

// A panel as the test of scores wants it, and what its groups may see of a tile.
struct PanelConstants {
  TileMask masks[kPanelQueries];
  FourFloats tests[kPanelQueries / 2];
};

// By n_threads threads, of which this is number `thread`: what may_reach() wants to know of columns
// that begin at query_begin, factor and cut of two columns each. A query that has read all of its
// tiles finds no candidates.
__device__ inline void load_tests(DenseJob const& job, std::uint32_t query_begin,
                                  std::uint32_t n_queries, std::uint32_t width,
                                  std::uint32_t thread, std::uint32_t n_threads, FourFloats* to) {
#pragma unroll 1
  for (std::uint32_t column = thread; column < width; column += n_threads) {
    float factor = 0.0f;
    float cut = __builtin_inff();
    if (column < n_queries) {
      std::uint32_t const query = job.batch.panel_queries[query_begin + column];
      bool const is_int8 = job.plane == FirstPassPlane::kInt8;
      float const per_factor = is_int8 ? 1.0f / job.bounds[query].per_residual : 1.0f;
      factor = job.query_scales[query] * per_factor;
      if (job.batch.groups[job.batch.query_groups[query]].stride != 1)
        cut = job.cuts[query] * per_factor - kQuickSlack;
    }
    to[column / 2].values[column % 2 * 2] = factor;
    to[column / 2].values[column % 2 * 2 + 1] = cut;
  }
}

// By whole warps.
template <int kWordsAtOnce = 4>
__device__ inline void load_masks(DenseJob const& job, QueuedVisit const& visit,
                                  std::uint32_t group_begin, std::uint32_t n_groups,
                                  std::uint32_t thread, std::uint32_t n_threads, TileMask* to) {
#pragma unroll 1
  for (std::uint32_t i = thread / kWarp; i < n_groups; i += n_threads / kWarp) {
    TileMask const mask =
        group_mask<kWordsAtOnce>(job, visit, job.batch.panel_groups[group_begin + i]);
    if (lane_id() == 0) to[i] = mask;
  }
}

// The queries of a panel where a tile is read first.
struct FirstColumns {
  std::uint32_t queries[kPanelQueries];
  std::uint32_t places[kPanelQueries];  // of the query's group among the panel's
  // Of the tile among those that the query reads first: kNone32: it is not; twice its number, and 1
  // where the query reads all tiles first.
  std::uint32_t numbers[kPanelQueries];
  float scales[kPanelQueries];
  float factors[kPanelQueries];
};

__device__ inline void load_first(DenseJob const& job, QueuedVisit const& visit,
                                  std::uint32_t thread, std::uint32_t n_threads, FirstColumns& to) {
  Panel const panel = job.batch.panels[visit.panel];
#pragma unroll 1
  for (std::uint32_t column = thread; column < kPanelQueries; column += n_threads) {
    to.numbers[column] = kNone32;
    to.places[column] = 0;
    if (column >= panel.n_queries) continue;
    std::uint32_t const query = job.batch.panel_queries[panel.query_begin + column];
    to.queries[column] = query;
    to.places[column] = job.batch.panel_places[panel.query_begin + column];
    to.scales[column] = job.query_scales[query];
    to.factors[column] = job.bounds[query].per_residual;
    DenseGroup const group = job.batch.groups[job.batch.query_groups[query]];
    if (group.stride == 0 || visit.tile % group.stride != 0) continue;
    std::uint32_t const number =
        first_before(job.batch.runs + group.run_begin, group.n_runs, group.stride, visit.tile);
    to.numbers[column] = 2 * number + (group.stride == 1 ? 1 : 0);
  }
}

// What a warp has found and not written yet. Only this warp touches it.
struct PendingCandidates {
  // Sums of which at least one passes, four of a lane; then its lane and the number of its block.
  alignas(16) std::uint32_t sums[kWarp][4];
  std::uint32_t places[kWarp];
  std::uint64_t keys[kWarp];
  std::uint32_t queries[kWarp];
};

// Appends n of them to the candidates of their queries: their atomic operations run side by side,
// one for all of a query.
__device__ inline void write_pending(DenseJob const& job, PendingCandidates const& pending,
                                     std::uint32_t n) {
  sync_warp();  // all are there
  std::uint32_t const lane = lane_id();
  bool const is_there = lane < n;
  std::uint32_t const query = is_there ? pending.queries[lane] : kNone32;
  std::uint64_t const key = is_there ? pending.keys[lane] : 0;
  std::uint32_t const same = match(query);
  std::uint32_t const asks = lowest_bit(same);
  std::uint32_t place = 0;
  if (is_there && lane == asks) place = atomicAdd(&job.counts[query], popcount(same));
  place = shuffle(place, asks) + popcount(same & ((1u << lane) - 1));
  if (is_there && place < job.capacity) candidates_of(job, query)[place] = key;
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

template <typename Kind, typename Sum>
__device__ inline float score_of_sum(Sum sum, float row_scale, float query_scale) {
  if constexpr (std::is_same_v<Kind, Int8>) {
    return first_pass_score(sum, row_scale, query_scale);
  } else {
    return first_pass_score(sum, row_scale);
  }
}

// The sums of a panel and 16 rows of a tile, as a warp holds them: lane l has rows l / 4 and + 8,
// and of each eight queries numbers 2 (l mod 4) and + 1. Where the tile is read first, each query
// that does so keeps the lower scores of its rows, or the best score of a sample's 16.
template <typename Kind, typename Sum, int kBlocks>
__device__ inline void keep_first(DenseJob const& job, FirstColumns const& columns,
                                  TileMask const* masks, QueuedVisit const& visit,
                                  RowConstants const& rows, std::uint32_t first_row,
                                  Sum const (&sums)[kBlocks][4]) {
  static_assert(kSampleRows == 16, "rows of a warp");
  std::uint32_t const lane = lane_id();
  bool const is_full = visit.tile_class == TileClass::kFull;
#pragma unroll
  for (int n = 0; n < kBlocks; ++n) {
#pragma unroll
    for (int c = 0; c < 2; ++c) {
      std::uint32_t const column = 8 * n + lane % 4 * 2 + c;
      std::uint32_t const number = columns.numbers[column];
      bool const is_read = number != kNone32;
      bool const is_whole = is_read && (number & 1) != 0;
      std::uint32_t const query = is_read ? columns.queries[column] : 0;
      TileMask const mask = is_full || !is_read ? TileMask::all() : masks[columns.places[column]];
      std::uint32_t most = 0;
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        std::uint32_t const row = first_row + lane / 4 + 8 * i;
        float const score =
            score_of_sum<Kind>(sums[n][2 * i + c], rows.scales[i], columns.scales[column]);
        float const lower = lower_score(score, rows.residuals[i], columns.factors[column]);
        bool const passes = is_read && mask.test(row);
        std::uint32_t const key = passes ? score_key(is_whole ? lower : score) : 0;
        if (is_whole) scores_of(job, query)[number / 2 * kTileRows + row] = key;
        most = key > most ? key : most;
      }
#pragma unroll
      for (unsigned by = 4; by < kWarp; by *= 2) {
        std::uint32_t const other = shuffle(most, lane ^ by);
        most = other > most ? other : most;
      }
      if (is_read && !is_whole && lane < 4) {
        std::uint32_t const block = number / 2 * (kTileRows / kSampleRows) + first_row / 16;
        job.samples[std::size_t{query} * job.most_samples + block] = most;
      }
    }
  }
}

// The same sums where a row whose score reaches its query's cut becomes a candidate, known by its
// lower score, if the query may see it.
//
// Few sums pass. So the test of all of them only copies those of a lane that has one; then the
// lanes make candidates of the copies side by side. If more lanes have one than there is room for,
// that is done block by block instead.
template <typename Kind, typename Sum>
class ScoreTest {
 public:
  __device__ ScoreTest(DenseJob const& job, FourFloats const* tests, TileMask const* masks,
                       QueuedVisit const& visit, std::uint32_t first_panel,
                       RowConstants const& rows, std::uint32_t first_row,
                       PendingCandidates& pending, std::uint32_t n_pending)
      : job_(job),
        tests_(tests),
        masks_(masks),
        visit_(visit),
        first_panel_(first_panel),
        rows_(rows),
        first_row_(first_row),
        pending_(pending),
        n_pending_(n_pending) {}

  // Returns how many candidates are pending.
  template <int kBlocks>
  __device__ std::uint32_t run(Sum const (&sums)[kBlocks][4]) {
    static_assert(kBlocks <= 32, "a bit a block");
    FourFloats const* const tests = tests_ + lane_id() % 4;
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
#pragma unroll 1
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
  // No less than the score's reach: both are divided by the query's factor, and kQuickSlack pays
  // for the roundings. A score here costs a conversion, a product, an fma and a comparison.
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

  // Whether the row of a column's score is a candidate; then key and query are those.
  __device__ bool is_candidate(float sum_scale, Sum sum, float residual, std::uint32_t row,
                               std::uint32_t column, std::uint64_t& key,
                               std::uint32_t& query) const {
    // Of columns without a query, and of queries that have read all of their tiles.
    if (tests_[column / 2].values[column % 2 * 2 + 1] == __builtin_inff()) return false;
    // Only the last panel of a wide one has room left.
    Panel const& panel = job_.batch.panels[first_panel_ + column / kPanelQueries];
    std::uint32_t const at = panel.query_begin + column % kPanelQueries;
    query = job_.batch.panel_queries[at];
    float const factor = job_.bounds[query].per_residual;
    float const score = score_of_sum<Kind>(sum, sum_scale, job_.query_scales[query]);
    // In 16-bit planes a residual is 0, so this is the score.
    if (!(reach(score, residual, factor) >= job_.cuts[query])) return false;
    if (visit_.tile_class != TileClass::kFull) {
      std::uint32_t const first = job_.batch.panels[first_panel_].group_begin;
      if (!masks_[panel.group_begin - first + job_.batch.panel_places[at]].test(row)) return false;
    }
    key = candidate_key(lower_score(score, residual, factor), visit_.tile * kTileRows + row);
    return true;
  }

  // Makes candidates of the sums copied that pass and whose query may see the row.
  __device__ void make_candidates() {
    std::uint32_t const lane = lane_id();
    std::uint32_t const n = 4 * n_sums_;
    if (n == 0) return;
    sync_warp();  // all copies are there
#pragma unroll 1
    for (std::uint32_t begin = 0; begin < n; begin += kWarp) {
      bool const is_there = begin + lane < n;
      std::uint32_t const at = is_there ? (begin + lane) / 4 : 0;
      std::uint32_t const i = lane % 4;  // of the four sums
      std::uint32_t const place = pending_.places[at];
      std::uint32_t const of = place % kWarp;  // the lane that had it
      std::uint32_t const row = first_row_ + of / 4 + i / 2 * 8;
      std::uint32_t const column = of % 4 * 2 + place / kWarp * 8 + i % 2;
      // The lane that had the sum knows the row.
      float const scales[2] = {shuffle(rows_.scales[0], of), shuffle(rows_.scales[1], of)};
      float const residuals[2] = {shuffle(rows_.residuals[0], of), shuffle(rows_.residuals[1], of)};
      Sum sum;
      std::memcpy(&sum, &pending_.sums[at][i], sizeof sum);
      std::uint64_t key = 0;
      std::uint32_t query = 0;
      bool const is_kept =
          is_there && is_candidate(i < 2 ? scales[0] : scales[1], sum,
                                   i < 2 ? residuals[0] : residuals[1], row, column, key, query);
      std::uint32_t const kept = ballot(is_kept);
      if (n_pending_ + popcount(kept) > kWarp) {
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
    n_sums_ = 0;  // all lanes have read the copies before the last ballot
  }

  DenseJob const& job_;
  FourFloats const* const tests_;
  TileMask const* const masks_;
  QueuedVisit const& visit_;
  std::uint32_t const first_panel_;  // of a wide panel; else the panel
  RowConstants const rows_;
  std::uint32_t const first_row_;
  PendingCandidates& pending_;
  std::uint32_t n_pending_;
  std::uint32_t n_sums_ = 0;
};

}  // namespace hyrecall::cuda
