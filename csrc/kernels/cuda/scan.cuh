// What:   the first pass: rows of tiles times queries of panels in a plane of the first pass, on
// the matrix units
//         of sm_80 and later; candidates are rows whose upper bound reaches their query's cut.
// In/Out: DenseJob; a stage and a width class of its batch. Appends to candidates and counts.
// Launch: any grid of kScanThreads; CTA b takes visits b, b + grid, ...; ScanShape::kSharedBytes.
// Cost:   every row of the stage's tiles is read once a cohort: n_rows x plane_chunks x 128 bytes,
// and
//         2 x n_rows x dim x width operations. Bound by memory until a panel has some 200 queries.
// Oracle: every row with a canonical score of at least its query's threshold is a candidate
//         (tests/emulator). Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/candidates.cuh"

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

  struct Shared {
    unsigned char stages[kStages][kStageBytes];
    PanelConstants<kWidth> constants;
    VisitQueue queue;
    PendingCandidates pending[kScanThreads / kWarp];
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
  std::size_t const block = std::size_t{visit.tile - own.first_tile} * job.plane_chunks + chunk;
  std::uint8_t const* const rows = (job.plane == FirstPassPlane::kInt8 ? own.codes : own.rows) +
                                   block * (kTileRows * kChunkBytes);
  unsigned char* const to = shared.stages[slot];
  for (std::uint32_t i = threadIdx.x; i < kTileRows * kPieces; i += kScanThreads)
    async_copy(to + i * kPieceBytes, rows + i * kPieceBytes);
  std::uint8_t const* const queries = job.plane_queries +
                                      queries_of_panel(job, job.batch.panels[visit.panel]) +
                                      std::size_t{chunk} * (kWidth * kChunkBytes);
  for (std::uint32_t i = threadIdx.x; i < kWidth * kPieces; i += kScanThreads)
    async_copy(to + kTileRows * kChunkBytes + i * kPieceBytes, queries + i * kPieceBytes);
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

template <typename Kind, int kWidth>
__global__ void __launch_bounds__(kScanThreads, 2)
    scan_rows(DenseJob const* job_at, std::uint32_t stage_number) {
  using Shape = ScanShape<kWidth>;
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  constexpr std::uint32_t kPlace = width_place(kWidth);
  if (job.batch.widths[kPlace].width != kWidth || stage_number >= job.batch.n_stages) return;
  WidthClass const width = job.batch.widths[kPlace];
  std::uint32_t const warp = threadIdx.x / kWarp;
  std::uint32_t const first_row = warp / Shape::kWarpsAcross * (Shape::kRowBlocks * 16);
  std::uint32_t const first_query = warp % Shape::kWarpsAcross * (Shape::kQueryBlocks * 8);
  std::uint32_t const n_chunks = job.plane_chunks;
  Sum sums[Shape::kRowBlocks][Shape::kQueryBlocks][4] = {};
  PendingCandidates& pending = shared.pending[warp];
  std::uint32_t n_pending = 0;
  if (threadIdx.x == 0) shared.queue.next = 0;
  while (true) {
    sync_block();  // nobody reads the old queue any more
    if (warp == 0) refill(job, width, stage_number, shared.queue);
    sync_block();
    std::uint32_t const n_loads = shared.queue.n * n_chunks;
    if (n_loads == 0) break;
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
      if (i % n_chunks == 0)
        load_constants(job, visit, threadIdx.x, kScanThreads, shared.constants);
      multiply_chunk<Kind, kWidth>(shared.stages[i % Shape::kStages], first_row, first_query, sums);
      if (i % n_chunks == n_chunks - 1) {
        if (n_chunks == 1) sync_block();  // else a barrier has come between
#pragma unroll
        for (int m = 0; m < Shape::kRowBlocks; ++m) {
          std::uint32_t const own_row = first_row + 16 * m;
          ScoreTest<Kind, kWidth, Sum> test(job, shared.constants, visit,
                                            load_rows<Kind>(job, visit, own_row), own_row,
                                            first_query, pending, n_pending);
          n_pending = test.run(sums[m]);
#pragma unroll
          for (auto& block : sums[m]) block[0] = block[1] = block[2] = block[3] = 0;
        }
      }
    }
    wait_copies<0>();
  }
  write_pending(job, pending, n_pending);
}

}  // namespace hyrecall::cuda
