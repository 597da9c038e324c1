// What:   the first pass on Hopper: as scan.cuh, with products of warpgroups (wgmma) fed by block
//         copies. One warp plans and copies, two warpgroups of 64 rows each multiply and test.
// In/Out: as scan.cuh, which it equals in every candidate but for the order of sums in 16-bit
//         planes.
// Launch: any grid of StreamShape::kThreads; CTA b takes visits b, b + grid, ...;
//         StreamShape::kSharedBytes.
// Cost:   as scan.cuh. Per 128 bytes of a row: 16 KB of rows, the panel's width x 128 bytes of
//         queries, 8 products of m64 n(width). Bound by memory.
// Oracle: as scan.cuh. Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/candidates.cuh"
#include "kernels/cuda/primitives_sm90.cuh"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kGroupThreads = 128;  // of a warpgroup
inline constexpr std::uint32_t kGroups = 2;          // that multiply, 64 rows each
inline constexpr std::uint32_t kGroupRows = kTileRows / kGroups;
inline constexpr std::uint32_t kGroupWarps = kGroupThreads / kWarp;

// A place in a ring of stages.
template <int kStages>
struct RingPlace {
  std::uint32_t stage = 0;
  std::uint32_t parity = 0;

  __device__ void advance(std::uint32_t by = 1) {
    stage += by;
    parity ^= stage / kStages & 1;
    stage %= kStages;
  }
};

struct StreamShape {
  static constexpr std::uint32_t kRowBytes = kTileRows * kChunkBytes;  // of a block of rows
  static constexpr int kStages = 4;  // 64 KB of rows under way a CTA, of which two share a
  static constexpr int kCtas = 2;    // multiprocessor
  static constexpr std::uint32_t kThreads = kGroups * kGroupThreads + kWarp;

  struct Group {
    PanelConstants constants;
    FirstColumns first;
  };
  struct Shared {
    unsigned char rows[kStages][kRowBytes];
    unsigned char queries[kStages][kPanelQueries * kChunkBytes];
    Group groups[kGroups];
    QueuedVisit visits[kStages];  // whose chunk the stage holds; kEmpty: there are no more
    VisitQueue queue;
    PendingCandidates pending[kGroups * kGroupWarps];
    std::uint64_t full[kStages];   // the chunk is there
    std::uint64_t empty[kStages];  // both groups have done with it
  };
  static constexpr std::size_t kSharedBytes = sizeof(Shared);
};
static_assert(StreamShape::kCtas * (StreamShape::kSharedBytes + 1024) <= 228 * 1024);

__device__ inline std::uint8_t const* rows_of_tile(DenseJob const& job, QueuedVisit const& visit) {
  DenseSegment const& own = job.segments[visit.segment];
  return (job.plane == FirstPassPlane::kInt8 ? own.codes : own.rows) +
         std::size_t{visit.tile - own.first_tile} * job.plane_chunks * (kTileRows * kChunkBytes);
}

__device__ inline void copy_chunks(DenseJob const& job, Visit const* visits, std::uint32_t n_visits,
                                   StreamShape::Shared& shared) {
  RingPlace<StreamShape::kStages> at;
  std::uint32_t const lane = lane_id();
  if (lane == 0) shared.queue.next = 0;
  while (true) {
    sync_warp();
    refill(job, visits, n_visits, blockIdx.x, gridDim.x, shared.queue);
    sync_warp();
    std::uint32_t const n = shared.queue.n;
    for (std::uint32_t i = 0; i < n && lane == 0; ++i) {
      QueuedVisit const visit = shared.queue.visits[i];
      Panel const panel = job.batch.panels[visit.panel];
      std::uint32_t const query_bytes = panel.width * kChunkBytes;
      std::uint8_t const* rows = rows_of_tile(job, visit);
      std::uint8_t const* queries = job.plane_queries + queries_of_panel(job, panel);
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < job.plane_chunks; ++chunk) {
        wait_phase(&shared.empty[at.stage], at.parity ^ 1);
        shared.visits[at.stage] = visit;
        arrive_expecting(&shared.full[at.stage], StreamShape::kRowBytes + query_bytes);
        copy_block(shared.rows[at.stage], rows, StreamShape::kRowBytes, &shared.full[at.stage]);
        copy_block(shared.queries[at.stage], queries, query_bytes, &shared.full[at.stage]);
        rows += StreamShape::kRowBytes;
        queries += query_bytes;
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

// A group of warps that multiplies and tests.
template <typename Kind, bool kIsFirst>
class StreamGroup {
 public:
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;

  __device__ StreamGroup(DenseJob const& job, StreamShape::Shared& shared)
      : job_(job), shared_(shared) {}

  __device__ void run() {
    while (true) {
      wait_phase(&shared_.full[at_.stage], at_.parity);
      QueuedVisit const visit = shared_.visits[at_.stage];
      if (visit.tile_class == TileClass::kEmpty) break;
      take(visit);
    }
    if constexpr (!kIsFirst) write_pending(job_, pending(), n_pending_);
  }

 private:
  __device__ static std::uint32_t group() { return threadIdx.x / kGroupThreads; }
  __device__ static std::uint32_t first_row() { return threadIdx.x / kWarp * 16; }
  __device__ PendingCandidates& pending() { return shared_.pending[threadIdx.x / kWarp]; }

  // Sums of places past the panel's width are of what the stage held before; nobody reads them.
  __device__ void take(QueuedVisit const& visit) {
    RowConstants rows = {};
    Sum sums[kPanelQueries / 8][4];
#pragma unroll 1
    for (std::uint32_t chunk = 0; chunk < job_.plane_chunks; ++chunk) {
      if (chunk > 0) wait_phase(&shared_.full[at_.stage], at_.parity);
      std::uint64_t const of_rows =
          describe_matrix(shared_.rows[at_.stage] + group() * kGroupRows * kChunkBytes);
      std::uint64_t const queries = describe_matrix(shared_.queries[at_.stage]);
      begin_products();
#pragma unroll
      for (std::uint32_t step = 0; step < kChunkBytes / 32; ++step) {
        // 32 bytes on, in the descriptor's units of 16.
        multiply_group(Kind{}, sums, of_rows + 2 * step, queries + 2 * step, chunk + step > 0);
      }
      commit_products();
      at_.advance();
      if (chunk == 0) {
        // While the first chunk is multiplied. All of the group have done with the last panel.
        sync_threads(1 + group(), kGroupThreads);
        load(visit);
        rows = load_rows<Kind>(job_, visit, first_row());
      } else {
        wait_products<1>();
        release(2);
      }
    }
    wait_products<0>();
    release(1);
    sync_threads(1 + group(), kGroupThreads);  // the constants are there for all
    StreamShape::Group const& own = shared_.groups[group()];
    if constexpr (kIsFirst) {
      keep_first<Kind>(job_, own.first, own.constants.masks, visit, rows, first_row(), sums);
    } else {
      ScoreTest<Kind, Sum> test(job_, own.constants.tests, own.constants.masks, visit, visit.panel,
                                rows, first_row(), pending(), n_pending_);
      n_pending_ = test.run(sums);
    }
  }

  __device__ void load(QueuedVisit const& visit) {
    StreamShape::Group& own = shared_.groups[group()];
    std::uint32_t const thread = threadIdx.x % kGroupThreads;
    Panel const panel = job_.batch.panels[visit.panel];
    if (visit.tile_class != TileClass::kFull)
      load_masks(job_, visit, panel.group_begin, panel.n_groups, thread, kGroupThreads,
                 own.constants.masks);
    if constexpr (kIsFirst) {
      load_first(job_, visit, thread, kGroupThreads, own.first);
    } else {
      load_tests(job_, panel.query_begin, panel.n_queries, kPanelQueries, thread, kGroupThreads,
                 own.constants.tests);
    }
  }

  // The stage that was read so many stages ago.
  __device__ void release(std::uint32_t ago) {
    constexpr std::uint32_t kStages = StreamShape::kStages;
    if (lane_id() == 0) arrive(&shared_.empty[(at_.stage + kStages - ago) % kStages]);
  }

  DenseJob const& job_;
  StreamShape::Shared& shared_;
  RingPlace<StreamShape::kStages> at_;
  std::uint32_t n_pending_ = 0;
};

template <typename Kind, bool kIsFirst>
__global__ void __launch_bounds__(StreamShape::kThreads, StreamShape::kCtas)
    scan_rows_sm90(DenseJob const* job_at) {
  begin_behind();
  auto& shared = *reinterpret_cast<StreamShape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  std::uint32_t const n_visits = kIsFirst ? job.batch.n_first : job.batch.n_rest;
  if (blockIdx.x >= n_visits) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < StreamShape::kStages; ++i) {
      init_barrier(&shared.full[i], 1);
      init_barrier(&shared.empty[i], kGroups * kGroupWarps);
    }
    publish_barriers();
  }
  sync_block();
  if (threadIdx.x < kGroups * kGroupThreads) {
    StreamGroup<Kind, kIsFirst>(job, shared).run();
  } else {
    copy_chunks(job, kIsFirst ? job.first_visits : job.rest_visits, n_visits, shared);
  }
}

}  // namespace hyrecall::cuda
