// What:   the first pass: rows of tiles times queries of panels in a front plane, on the matrix
// units
//         of sm_80 and later; candidates are rows whose upper bound reaches their query's cut.
// In/Out: DenseJob; a stage and a width class of its batch. Appends to candidates and counts.
// Launch: any grid of kScanThreads; CTA b takes visits b, b + grid, ...; ScanShape::kSharedBytes.
// Cost:   every row of the stage's tiles is read once a cohort: n_rows x front_chunks x 128 bytes,
// and
//         2 x n_rows x dim x width operations. Bound by memory until a panel has some 200 queries.
// Oracle: every row with a canonical score of at least its query's threshold is a candidate
//         (tests/emulator). Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/visits.cuh"
#include "kernels/score_key.hpp"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kScanThreads = 256;

// kWidth queries of a panel: 8, 32 or 64.
template <int kWidth>
struct ScanShape {
  static constexpr int kWarpsAcross = kWidth == 64 ? 2 : 1;  // warps that share rows
  static constexpr int kWarpsDown = 8 / kWarpsAcross;
  static constexpr int kRowBlocks = kTileRows / kWarpsDown / 16;  // of 16 rows a warp
  static constexpr int kQueryBlocks = kWidth / kWarpsAcross / 8;  // of 8 queries a warp
  static constexpr std::uint32_t kStageBytes = (kTileRows + kWidth) * kChunkBytes;
  // Copies under way: three CTAs of an H100 then have some 150 KB in flight, and one of a device
  // with 99 KB of shared memory still fits.
  static constexpr int kStages = kWidth == 64 ? 3 : 4;

  struct Constants {  // of the visit's panel
    TileMask masks[kWidth];
    float cuts[kWidth];
    float scales[kWidth];
    float factors[kWidth];
    std::uint32_t queries[kWidth];
    std::uint32_t places[kWidth];  // of the query's group among the panel's
  };
  struct Shared {
    unsigned char stages[kStages][kStageBytes];
    Constants constants;
    VisitQueue queue;
  };
  static constexpr std::size_t kSharedBytes = sizeof(Shared);
};

// Both planes lie in memory as they do in shared memory, so pieces keep their places.
template <int kWidth>
__device__ inline void load_chunk(DenseJob const& job, typename ScanShape<kWidth>::Shared& shared,
                                  std::uint32_t visit_number, std::uint32_t chunk,
                                  std::uint32_t slot) {
  QueuedVisit const visit = shared.queue.visits[visit_number];
  DenseSegment const& own = job.segments[visit.segment];
  std::size_t const block = std::size_t{visit.tile - own.first_tile} * job.front_chunks + chunk;
  std::uint8_t const* const rows =
      (job.plane == FrontPlane::kInt8 ? own.codes : own.rows) + block * (kTileRows * kChunkBytes);
  unsigned char* const to = shared.stages[slot];
  for (std::uint32_t i = threadIdx.x; i < kTileRows * kPieces; i += kScanThreads)
    async_copy(to + i * kPieceBytes, rows + i * kPieceBytes);
  std::uint8_t const* const queries = job.front_queries +
                                      queries_of_panel(job, job.batch.panels[visit.panel]) +
                                      std::size_t{chunk} * (kWidth * kChunkBytes);
  for (std::uint32_t i = threadIdx.x; i < kWidth * kPieces; i += kScanThreads)
    async_copy(to + kTileRows * kChunkBytes + i * kPieceBytes, queries + i * kPieceBytes);
}

// The panel's queries as the test of scores wants them, and the masks of its groups.
template <int kWidth>
__device__ inline void load_constants(DenseJob const& job, QueuedVisit const& visit,
                                      typename ScanShape<kWidth>::Constants& to) {
  Panel const panel = job.batch.panels[visit.panel];
  for (std::uint32_t column = threadIdx.x; column < kWidth; column += kScanThreads) {
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
  for (std::uint32_t i = threadIdx.x / kWarp; i < panel.n_groups; i += kScanThreads / kWarp) {
    TileMask const mask = group_mask(job, visit, job.batch.panel_groups[panel.group_begin + i]);
    if (lane_id() == 0) to.masks[i] = mask;
  }
}

// sums += one chunk. A warp's rows begin at first_row, its queries at first_query.
template <typename Kind, int kWidth, typename Sum>
__device__ inline void multiply_chunk(
    unsigned char const* stage, std::uint32_t first_row, std::uint32_t first_query,
    Sum (&sums)[ScanShape<kWidth>::kRowBlocks][ScanShape<kWidth>::kQueryBlocks][4]) {
  using Shape = ScanShape<kWidth>;
  std::uint32_t const lane = lane_id();
  std::uint32_t const matrix = lane / 8;  // the one of four whose rows this lane points at
  unsigned char const* const queries = stage + kTileRows * kChunkBytes;
#pragma unroll
  for (std::uint32_t step = 0; step < kPieces / 2; ++step) {  // of 32 bytes
    std::uint32_t rows[Shape::kRowBlocks][4];
#pragma unroll
    for (int m = 0; m < Shape::kRowBlocks; ++m) {
      std::uint32_t const row = first_row + 16 * m + lane % 8 + matrix % 2 * 8;
      load_matrices(rows[m], stage + place_in_block(row, (2 * step + matrix / 2) * kPieceBytes));
    }
    if constexpr (Shape::kQueryBlocks == 1) {
      // One load serves this step's 32 bytes and the next's.
      std::uint32_t both[4];
      load_matrices(both, queries + place_in_block(first_query + lane % 8,
                                                   (step / 2 * 4 + matrix) * kPieceBytes));
      std::uint32_t const own[2] = {both[step % 2 * 2], both[step % 2 * 2 + 1]};
#pragma unroll
      for (int m = 0; m < Shape::kRowBlocks; ++m) multiply(Kind{}, sums[m][0], rows[m], own);
    } else {
#pragma unroll
      for (int n = 0; n < Shape::kQueryBlocks; n += 2) {
        std::uint32_t pair[4];
        std::uint32_t const query = first_query + 8 * n + lane % 8 + matrix / 2 * 8;
        load_matrices(pair, queries + place_in_block(query, (2 * step + matrix % 2) * kPieceBytes));
        std::uint32_t const low[2] = {pair[0], pair[1]};
        std::uint32_t const high[2] = {pair[2], pair[3]};
#pragma unroll
        for (int m = 0; m < Shape::kRowBlocks; ++m) {
          multiply(Kind{}, sums[m][n], rows[m], low);
          multiply(Kind{}, sums[m][n + 1], rows[m], high);
        }
      }
    }
  }
}

// A score that reaches its cut becomes a candidate, if its query may see the row. Lanes of a warp
// that hold the same query (those with equal lane mod 4) append together.
template <int kWidth>
__device__ inline void append(DenseJob const& job,
                              typename ScanShape<kWidth>::Constants const& constants, bool is_full,
                              bool reaches, float score, std::uint32_t tile, std::uint32_t row,
                              std::uint32_t column) {
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
        candidate_key(score, tile * kTileRows + row);
  }
}

template <typename Kind, int kWidth, typename Sum>
__device__ inline void test_scores(
    DenseJob const& job, typename ScanShape<kWidth>::Constants const& constants,
    QueuedVisit const& visit, std::uint32_t first_row, std::uint32_t first_query,
    Sum (&sums)[ScanShape<kWidth>::kRowBlocks][ScanShape<kWidth>::kQueryBlocks][4]) {
  using Shape = ScanShape<kWidth>;
  DenseSegment const& own = job.segments[visit.segment];
  bool const is_full = visit.tile_class == TileClass::kFull;
  std::uint32_t const first = (visit.tile - own.first_tile) * kTileRows;
#pragma unroll
  for (int m = 0; m < Shape::kRowBlocks; ++m) {
    float scales[2];
    float residuals[2];
    std::uint32_t const row = first_row + 16 * m + lane_id() / 4;
#pragma unroll
    for (int i = 0; i < 2; ++i) {
      // Rows past the end are in no mask; their numbers must only be readable.
      std::uint32_t const at = first + row + 8 * i < own.n_rows ? first + row + 8 * i : first;
      if constexpr (std::is_same_v<Kind, Int8>) {
        scales[i] = own.scales[at];
        residuals[i] = own.residuals[at];
      } else {
        scales[i] = own.inverse_norms[at];
        residuals[i] = 0.0f;
      }
    }
#pragma unroll
    for (int n = 0; n < Shape::kQueryBlocks; ++n) {
      float scores[4];
      bool reaches[4];
      bool any = false;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        std::uint32_t const column = first_query + 8 * n + lane_id() % 4 * 2 + i % 2;
        if constexpr (std::is_same_v<Kind, Int8>) {
          scores[i] = front_score(sums[m][n][i], scales[i / 2], constants.scales[column]);
          reaches[i] = reach(scores[i], residuals[i / 2], constants.factors[column]) >=
                       constants.cuts[column];
        } else {
          scores[i] = front_score(sums[m][n][i], scales[i / 2]);
          reaches[i] = scores[i] >= constants.cuts[column];
        }
        any = any || reaches[i];
        sums[m][n][i] = 0;
      }
      if (ballot(any) == 0) continue;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        append<kWidth>(job, constants, is_full, reaches[i], scores[i], visit.tile, row + i / 2 * 8,
                       first_query + 8 * n + lane_id() % 4 * 2 + i % 2);
      }
    }
  }
}

template <typename Kind, int kWidth>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_rows(DenseJob const* job_at, std::uint32_t width_number, std::uint32_t stage_number) {
  using Shape = ScanShape<kWidth>;
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  if (width_number >= job.batch.n_widths || stage_number >= job.batch.n_stages) return;
  WidthClass const width = job.batch.widths[width_number];
  std::uint32_t const warp = threadIdx.x / kWarp;
  std::uint32_t const first_row = warp / Shape::kWarpsAcross * (Shape::kRowBlocks * 16);
  std::uint32_t const first_query = warp % Shape::kWarpsAcross * (Shape::kQueryBlocks * 8);
  std::uint32_t const n_chunks = job.front_chunks;
  Sum sums[Shape::kRowBlocks][Shape::kQueryBlocks][4] = {};
  if (threadIdx.x == 0) shared.queue.next = 0;
  while (true) {
    sync_block();  // nobody reads the old queue any more
    if (warp == 0) refill(job, width, stage_number, shared.queue);
    sync_block();
    std::uint32_t const n_loads = shared.queue.n * n_chunks;
    if (n_loads == 0) return;
    // A group of copies a chunk, an empty one past the end, so that their number tells which have
    // landed.
    std::uint32_t load = 0;
    auto const load_next = [&] {
      if (load < n_loads) {
        load_chunk<kWidth>(job, shared, load / n_chunks, load % n_chunks, load % Shape::kStages);
      }
      commit_copies();
      load += 1;
    };
    for (int i = 0; i + 1 < Shape::kStages; ++i) load_next();
    for (std::uint32_t i = 0; i < n_loads; ++i) {
      wait_copies<Shape::kStages - 2>();
      sync_block();  // chunk i is there for all, and all have done with chunk i - 1
      load_next();
      QueuedVisit const visit = shared.queue.visits[i / n_chunks];
      if (i % n_chunks == 0) load_constants<kWidth>(job, visit, shared.constants);
      multiply_chunk<Kind, kWidth>(shared.stages[i % Shape::kStages], first_row, first_query, sums);
      if (i % n_chunks == n_chunks - 1) {
        if (n_chunks == 1) sync_block();  // else a barrier has come between
        test_scores<Kind, kWidth>(job, shared.constants, visit, first_row, first_query, sums);
      }
    }
    wait_copies<0>();
  }
}

}  // namespace hyrecall::cuda
