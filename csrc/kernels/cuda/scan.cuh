// What:   the first pass: rows of tiles times queries of panels in a plane of the first pass, on
// the
//         matrix units of sm_80 and later; scores of what is read first, then candidates: rows
//         whose upper bound reaches their query's cut.
// In/Out: DenseJob; with kIsFirst first_visits, whose scores and samples it writes; else
//         rest_visits: appends to candidates and counts.
// Launch: any grid of kScanThreads; CTA b takes visits b, b + grid, ...; ScanShape::kSharedBytes.
// Cost:   every row of a visit's tile is read once a panel, from memory once a cohort:
//         n_rows x plane_chunks x 128 bytes; 2 x n_rows x dim x width operations.
// Oracle: every row with a canonical score of at least its query's threshold is a candidate
//         (tests/emulator). Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/candidates.cuh"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kScanThreads = 256;

struct ScanShape {
  static constexpr int kQueryBlocks = kPanelQueries / 8;  // of 8 queries; a warp has 16 rows
  static constexpr std::uint32_t kStageBytes = (kTileRows + kPanelQueries) * kChunkBytes;
  // Copies under way: two CTAs share a multiprocessor, and one of a device with 99 KB of shared
  // memory still fits.
  static constexpr int kStages = 4;

  struct Shared {
    unsigned char stages[kStages][kStageBytes];
    PanelConstants constants;
    FirstColumns first;
    VisitQueue queue;
    PendingCandidates pending[kScanThreads / kWarp];
  };
  static constexpr std::size_t kSharedBytes = sizeof(Shared);
};

// Both planes lie in memory as they do in shared memory, so pieces keep their places.
__device__ inline void load_chunk(DenseJob const& job, ScanShape::Shared& shared,
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
  Panel const panel = job.batch.panels[visit.panel];
  std::uint32_t const bytes = panel.width * kChunkBytes;
  std::uint8_t const* const queries =
      job.plane_queries + queries_of_panel(job, panel) + std::size_t{chunk} * bytes;
  for (std::uint32_t i = threadIdx.x; i < bytes / kPieceBytes; i += kScanThreads)
    async_copy(to + kTileRows * kChunkBytes + i * kPieceBytes, queries + i * kPieceBytes);
}

// sums += one chunk, of a panel of `width` places; sums of places past the width stay 0.
template <typename Kind, typename Sum>
__device__ inline void multiply_chunk(unsigned char const* stage, std::uint32_t first_row,
                                      std::uint32_t width,
                                      Sum (&sums)[ScanShape::kQueryBlocks][4]) {
  std::uint32_t const lane = lane_id();
  std::uint32_t const matrix = lane / 8;  // the one of four whose rows this lane points at
  unsigned char const* const queries = stage + kTileRows * kChunkBytes;
#pragma unroll
  for (std::uint32_t step = 0; step < kPieces / 2; ++step) {  // of 32 bytes
    std::uint32_t rows[4];
    std::uint32_t const row = first_row + lane % 8 + matrix % 2 * 8;
    load_matrices(rows, stage + place_in_block(row, (2 * step + matrix / 2) * kPieceBytes));
#pragma unroll
    for (int n = 0; n < ScanShape::kQueryBlocks; n += 2) {
      if (8 * static_cast<std::uint32_t>(n) >= width) break;  // the same for all lanes
      std::uint32_t pair[4];
      // Of a panel of 8 the second block is the first again, whose sums nobody reads.
      std::uint32_t const own = 8 * n + lane % 8 + matrix / 2 * 8;
      std::uint32_t const query = own < width ? own : own - 8;
      load_matrices(pair, queries + place_in_block(query, (2 * step + matrix % 2) * kPieceBytes));
      std::uint32_t const low[2] = {pair[0], pair[1]};
      std::uint32_t const high[2] = {pair[2], pair[3]};
      multiply(Kind{}, sums[n], rows, low);
      multiply(Kind{}, sums[n + 1], rows, high);
    }
  }
}

template <typename Kind, bool kIsFirst>
__global__ void __launch_bounds__(kScanThreads, 2) scan_rows(DenseJob const* job_at) {
  begin_behind();
  using Shape = ScanShape;
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;
  auto& shared = *reinterpret_cast<Shape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  Visit const* const visits = kIsFirst ? job.first_visits : job.rest_visits;
  std::uint32_t const n_visits = kIsFirst ? job.batch.n_first : job.batch.n_rest;
  std::uint32_t const warp = threadIdx.x / kWarp;
  std::uint32_t const first_row = 16 * warp;
  std::uint32_t const n_chunks = job.plane_chunks;
  Sum sums[Shape::kQueryBlocks][4] = {};
  PendingCandidates& pending = shared.pending[warp];
  std::uint32_t n_pending = 0;
  if (threadIdx.x == 0) shared.queue.next = 0;
  while (true) {
    sync_block();  // nobody reads the old queue any more
    if (warp == 0) refill(job, visits, n_visits, blockIdx.x, gridDim.x, shared.queue);
    sync_block();
    std::uint32_t const n_loads = shared.queue.n * n_chunks;
    if (n_loads == 0) break;
    // A group of copies a chunk, an empty one past the end, so that their number tells which have
    // landed.
    std::uint32_t load = 0;
    auto const load_next = [&] {
      if (load < n_loads)
        load_chunk(job, shared, load / n_chunks, load % n_chunks, load % Shape::kStages);
      commit_copies();
      load += 1;
    };
    for (int i = 0; i + 1 < Shape::kStages; ++i) load_next();
    for (std::uint32_t i = 0; i < n_loads; ++i) {
      wait_copies<Shape::kStages - 2>();
      sync_block();  // chunk i is there for all, and all have done with chunk i - 1
      load_next();
      QueuedVisit const visit = shared.queue.visits[i / n_chunks];
      Panel const panel = job.batch.panels[visit.panel];
      if (i % n_chunks == 0) {
        if (visit.tile_class != TileClass::kFull)
          load_masks(job, visit, panel.group_begin, panel.n_groups, threadIdx.x, kScanThreads,
                     shared.constants.masks);
        if constexpr (kIsFirst) {
          load_first(job, visit, threadIdx.x, kScanThreads, shared.first);
        } else {
          load_tests(job, panel.query_begin, panel.n_queries, kPanelQueries, threadIdx.x,
                     kScanThreads, shared.constants.tests);
        }
      }
      multiply_chunk<Kind>(shared.stages[i % Shape::kStages], first_row, panel.width, sums);
      if (i % n_chunks == n_chunks - 1) {
        if (n_chunks == 1) sync_block();  // else a barrier has come between
        RowConstants const rows = load_rows<Kind>(job, visit, first_row);
        if constexpr (kIsFirst) {
          keep_first<Kind>(job, shared.first, shared.constants.masks, visit, rows, first_row, sums);
        } else {
          ScoreTest<Kind, Sum> test(job, shared.constants.tests, shared.constants.masks, visit,
                                    visit.panel, rows, first_row, pending, n_pending);
          n_pending = test.run(sums);
        }
#pragma unroll
        for (auto& block : sums) block[0] = block[1] = block[2] = block[3] = 0;
      }
    }
    wait_copies<0>();
  }
  if constexpr (!kIsFirst) write_pending(job, pending, n_pending);
}

}  // namespace hyrecall::cuda
