// What:   the first pass on Hopper: as scan.cuh, with products of warpgroups (wgmma) fed by block
//         copies. One warp plans and copies, two warpgroups of 64 rows each multiply and test.
// In/Out: as scan.cuh, which it equals in every candidate but for the order of sums in 16-bit
// planes. Launch: any grid of Sm90Shape::kThreads; CTA b takes visits b, b + grid, ...;
// Sm90Shape::kSharedBytes. Cost:   as scan.cuh. Per 128 bytes of a row: 16 KB of rows, kWidth x 128
// bytes of queries, 8 products
//         of m64 n(kWidth). Bound by memory for kWidth to 128, by the tensor cores for 256.
// Oracle: as scan.cuh. Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/candidates.cuh"
#include "kernels/cuda/primitives_sm90.cuh"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kGroupThreads = 128;  // of a warpgroup
inline constexpr std::uint32_t kGroups = 2;          // that multiply, 64 rows each

template <int kWidth>
struct Sm90Shape {
  static constexpr std::uint32_t kRowBytes = kTileRows * kChunkBytes;  // of a block of rows
  static constexpr std::uint32_t kQueryBytes = kWidth * kChunkBytes;
  // Some 100 KB under way a CTA where two share a multiprocessor, 200 KB where one has it alone.
  static constexpr int kStages = kWidth == 256 ? 4 : kWidth == 128 ? 6 : 5;
  static constexpr int kCtas = kWidth >= 128 ? 1 : 2;  // of a multiprocessor
  // Of 256 queries a thread holds 128 sums: there the copying warp has a whole group around it,
  // whose registers the others take.
  static constexpr bool kTakesRegisters = kWidth == 256;
  static constexpr std::uint32_t kThreads =
      kGroups * kGroupThreads + (kTakesRegisters ? kGroupThreads : kWarp);

  struct Shared {
    unsigned char rows[kStages][kRowBytes];
    unsigned char queries[kStages][kQueryBytes];
    PanelConstants<kWidth> constants[kGroups];
    QueuedVisit visits[kStages];  // whose chunk the stage holds; kEmpty: there are no more
    VisitQueue queue;
    PendingCandidates pending[kGroups * kGroupThreads / kWarp];
    std::uint64_t full[kStages];   // the chunk is there
    std::uint64_t empty[kStages];  // both groups have done with it
  };
  static constexpr std::size_t kSharedBytes = sizeof(Shared);
};

// A place in the ring of stages.
template <int kStages>
struct RingPlace {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance() {
    stage += 1;
    if (stage == kStages) {
      stage = 0;
      parity ^= 1;
    }
  }
};

template <int kWidth>
__device__ inline void copy_chunks(DenseJob const& job, WidthClass const& width,
                                   std::uint32_t stage_number,
                                   typename Sm90Shape<kWidth>::Shared& shared) {
  using Shape = Sm90Shape<kWidth>;
  RingPlace<Shape::kStages> at;
  std::uint32_t const lane = lane_id();
  if (lane == 0) shared.queue.next = 0;
  while (true) {
    sync_warp();
    refill(job, width, stage_number, shared.queue);
    sync_warp();
    std::uint32_t const n = shared.queue.n;
    for (std::uint32_t i = 0; i < n && lane == 0; ++i) {
      QueuedVisit const visit = shared.queue.visits[i];
      DenseSegment const& own = job.segments[visit.segment];
      std::uint8_t const* rows =
          (job.plane == FirstPassPlane::kInt8 ? own.codes : own.rows) +
          std::size_t{visit.tile - own.first_tile} * job.plane_chunks * Shape::kRowBytes;
      std::uint8_t const* queries =
          job.plane_queries + queries_of_panel(job, job.batch.panels[visit.panel]);
      for (std::uint32_t chunk = 0; chunk < job.plane_chunks; ++chunk) {
        wait_phase(&shared.empty[at.stage], at.parity ^ 1);
        shared.visits[at.stage] = visit;
        arrive_expecting(&shared.full[at.stage], Shape::kRowBytes + Shape::kQueryBytes);
        copy_block(shared.rows[at.stage], rows, Shape::kRowBytes, &shared.full[at.stage]);
        copy_block(shared.queries[at.stage], queries, Shape::kQueryBytes, &shared.full[at.stage]);
        rows += Shape::kRowBytes;
        queries += Shape::kQueryBytes;
        at.advance();
      }
    }
    if (n == 0) break;
  }
  if (lane == 0) {
    wait_phase(&shared.empty[at.stage], at.parity ^ 1);
    shared.visits[at.stage].tile_class = TileClass::kEmpty;
    arrive(&shared.full[at.stage]);
  }
}

template <typename Kind, int kWidth>
__device__ inline void multiply_and_test(DenseJob const& job,
                                         typename Sm90Shape<kWidth>::Shared& shared) {
  using Shape = Sm90Shape<kWidth>;
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;
  std::uint32_t const group = threadIdx.x / kGroupThreads;
  std::uint32_t const thread = threadIdx.x % kGroupThreads;
  PanelConstants<kWidth>& constants = shared.constants[group];
  RingPlace<Shape::kStages> at;
  RingPlace<Shape::kStages> done;  // the oldest stage that this group still holds
  PendingCandidates& pending = shared.pending[threadIdx.x / kWarp];
  std::uint32_t n_pending = 0;
  std::uint32_t const first_row = group * 64 + thread / kWarp * 16;
  std::uint32_t const n_chunks = job.plane_chunks;
  RowConstants of_rows = {};
  Sum sums[kWidth / 8][4];
  while (true) {
    wait_phase(&shared.full[at.stage], at.parity);
    QueuedVisit const visit = shared.visits[at.stage];
    if (visit.tile_class == TileClass::kEmpty) break;
    for (std::uint32_t chunk = 0; chunk < n_chunks; ++chunk) {
      if (chunk > 0) wait_phase(&shared.full[at.stage], at.parity);
      std::uint64_t const rows = describe_matrix(shared.rows[at.stage] + group * 64 * kChunkBytes);
      std::uint64_t const queries = describe_matrix(shared.queries[at.stage]);
      begin_products();
#pragma unroll
      for (std::uint32_t step = 0; step < kChunkBytes / 32; ++step) {
        // 32 bytes on, in the descriptor's units of 16.
        multiply_group(Kind{}, sums, rows + 2 * step, queries + 2 * step, chunk + step > 0);
      }
      commit_products();
      if (chunk == 0) {
        // While the first chunk is multiplied. All of the group have done with the last panel.
        sync_threads(1 + group, kGroupThreads);
        load_constants(job, visit, thread, kGroupThreads, constants);
        of_rows = load_rows<Kind>(job, visit, first_row);
      } else {
        wait_products<1>();
        if (lane_id() == 0) arrive(&shared.empty[done.stage]);
        done.advance();
      }
      at.advance();
    }
    wait_products<0>();
    if (lane_id() == 0) arrive(&shared.empty[done.stage]);
    done.advance();
    sync_threads(1 + group, kGroupThreads);  // the constants are there for all
    ScoreTest<Kind, kWidth, Sum> test(job, constants, visit, of_rows, first_row, 0, pending,
                                      n_pending);
    n_pending = test.run(sums);
  }
  write_pending(job, pending, n_pending);
}

template <typename Kind, int kWidth>
__global__ void __launch_bounds__(Sm90Shape<kWidth>::kThreads, Sm90Shape<kWidth>::kCtas)
    scan_rows_sm90(DenseJob const* job_at, std::uint32_t stage_number) {
  using Shape = Sm90Shape<kWidth>;
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  constexpr std::uint32_t kPlace = width_place(kWidth);
  if (job.batch.widths[kPlace].width != kWidth || stage_number >= job.batch.n_stages) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      init_barrier(&shared.full[i], 1);
      init_barrier(&shared.empty[i], kGroups * (kGroupThreads / kWarp));
    }
    publish_barriers();
  }
  sync_block();
  if (threadIdx.x < kGroups * kGroupThreads) {
    if constexpr (Shape::kTakesRegisters) take_registers<216>();
    multiply_and_test<Kind, kWidth>(job, shared);
  } else {
    if constexpr (Shape::kTakesRegisters) leave_registers<72>();
    if (threadIdx.x / kWarp == kGroups * kGroupThreads / kWarp)
      copy_chunks<kWidth>(job, job.batch.widths[kPlace], stage_number, shared);
  }
}

}  // namespace hyrecall::cuda
