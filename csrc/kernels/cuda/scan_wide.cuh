// What:   the first pass on Hopper where a tile serves many queries: a wide panel stays in shared
//         memory, and rows pass by in blocks of 64. Two warpgroups take turns: one multiplies while
//         the other tests.
// In/Out: DenseJob; wide_visits. Appends to candidates and counts, as scan.cuh.
// Launch: a CTA a multiprocessor, of WideShape::kThreads and WideShape::kSharedBytes; CTA b takes
//         the b-th share of the visits, which stand panel by panel.
// Cost:   per wide panel: rows x plane_chunks x 128 bytes, which other wide panels read at about
//         the same time; the panel's queries once a CTA. 2 x rows x dim x kWidth operations, which
//         bound it.
// Oracle: as scan.cuh. Derivation: docs/kernels/dense.md.
#pragma once

#include "kernels/cuda/scan_sm90.cuh"

namespace hyrecall::cuda {

template <int kWidth>
struct WideShape {
  static constexpr std::uint32_t kBlockBytes = kGroupRows * kChunkBytes;
  static constexpr std::uint32_t kMostChunks = most_wide_chunks(kWidth);
  static constexpr int kStages = 3;  // the next tile is on its way to the cache meanwhile
  // A thread holds up to 128 sums: the copying warp has a whole group around it, whose registers
  // the others take.
  static constexpr std::uint32_t kThreads = (kGroups + 1) * kGroupThreads;

  struct Shared {
    unsigned char queries[kMostChunks][kWidth * kChunkBytes];
    unsigned char rows[kStages][kBlockBytes];
    FourFloats tests[kWidth / 2];
    TileMask masks[kGroups][kWideGroups];
    PendingCandidates pending[kGroups * kGroupWarps];
    QueuedVisit visits[kStages];  // whose chunk the stage holds; kEmpty: the panel has no more
    std::uint64_t full[kStages];
    std::uint64_t empty[kStages];
    std::uint64_t turns[kGroups];  // the other group has multiplied
    std::uint64_t ready;           // the panel's queries are there
  };
  static constexpr std::size_t kSharedBytes = sizeof(Shared);
};

// What a CTA reads of a wide panel: visits [begin, end).
struct WideShare {
  std::uint32_t begin;
  std::uint32_t end;
};

// Calls use(wide panel, share) for each of which this CTA has a share.
template <typename Use>
__device__ inline void for_each_share(DenseJob const& job, Use&& use) {
  std::uint64_t const n = job.batch.n_wide;
  auto const begin = static_cast<std::uint32_t>(n * blockIdx.x / gridDim.x);
  auto const end = static_cast<std::uint32_t>(n * (blockIdx.x + 1) / gridDim.x);
  WidePanel const* const wides = job.batch.wides;
  std::uint32_t own = find_last(job.batch.n_wides, begin,
                                [wides](std::uint32_t i) { return wides[i].visit_begin; });
  for (std::uint32_t at = begin; at < end; ++own) {
    std::uint32_t const past =
        own + 1 < job.batch.n_wides ? wides[own + 1].visit_begin : job.batch.n_wide;
    std::uint32_t const stop = past < end ? past : end;
    use(wides[own], WideShare{at, stop});
    at = stop;
  }
}

template <int kWidth>
class WideCopier {
 public:
  using Shape = WideShape<kWidth>;

  __device__ WideCopier(DenseJob const& job, typename Shape::Shared& shared)
      : job_(job), shared_(shared) {}

  // By one warp. A tile is on its way to the cache while the one before is copied.
  __device__ void run() {
    for_each_share(job_, [this](WidePanel const& wide, WideShare share) {
      bool const is_copier = lane_id() == 0;
      if (is_copier) copy_queries(wide);
      QueuedVisit last{0, 0, 0, TileClass::kEmpty};
      for (std::uint32_t begin = share.begin; begin < share.end; begin += kWarp) {
        std::uint32_t const at = begin + lane_id();
        Visit const own = at < share.end ? job_.wide_visits[at] : Visit{0, 0};
        std::uint32_t left = ballot(own.tile_class() != TileClass::kEmpty);
        for (; left != 0; left &= left - 1) {
          Visit const found{shuffle(own.tile, lowest_bit(left)),
                            shuffle(own.panel_and_class, lowest_bit(left))};
          if (!is_copier) continue;
          QueuedVisit const next = queued(job_, found);
          prefetch_block(rows_of_tile(job_, next), job_.plane_chunks * (kTileRows * kChunkBytes));
          if (last.tile_class != TileClass::kEmpty) copy_tile(last);
          last = next;
        }
      }
      if (is_copier && last.tile_class != TileClass::kEmpty) copy_tile(last);
      if (is_copier) copy_tile({0, 0, 0, TileClass::kEmpty});
    });
  }

 private:
  // When both groups have done with the last panel, which they say of all stages.
  __device__ void copy_queries(WidePanel const& wide) {
    RingPlace<Shape::kStages> left = at_;
    for (int i = 0; i < Shape::kStages; ++i) {
      wait_phase(&shared_.empty[left.stage], left.parity ^ 1);
      left.advance();
    }
    std::uint32_t bytes = 0;
    for (std::uint32_t p = 0; p < wide.n_panels; ++p)
      bytes += job_.batch.panels[wide.panel_begin + p].width * kChunkBytes * job_.plane_chunks;
    arrive_expecting(&shared_.ready, bytes);
    for (std::uint32_t p = 0; p < wide.n_panels; ++p) {
      Panel const panel = job_.batch.panels[wide.panel_begin + p];
      std::uint8_t const* from = job_.plane_queries + queries_of_panel(job_, panel);
      std::uint32_t const of_chunk = panel.width * kChunkBytes;
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < job_.plane_chunks; ++chunk) {
        copy_block(
            shared_.queries[0] + (std::size_t{chunk} * kWidth + p * kPanelQueries) * kChunkBytes,
            from, of_chunk, &shared_.ready);
        from += of_chunk;
      }
    }
  }

  // A half after the other. Of an empty visit only the word that it is one.
  __device__ void copy_tile(QueuedVisit const& visit) {
    bool const is_there = visit.tile_class != TileClass::kEmpty;
    std::uint8_t const* const first = is_there ? rows_of_tile(job_, visit) : nullptr;
    for (std::uint32_t group = 0; group < kGroups; ++group) {
      std::uint8_t const* rows = first + group * Shape::kBlockBytes;
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < job_.plane_chunks; ++chunk) {
        std::uint64_t* const full = &shared_.full[at_.stage];
        wait_phase(&shared_.empty[at_.stage], at_.parity ^ 1);
        shared_.visits[at_.stage] = visit;
        if (is_there) {
          arrive_expecting(full, Shape::kBlockBytes);
          copy_block(shared_.rows[at_.stage], rows, Shape::kBlockBytes, full);
          rows += kTileRows * kChunkBytes;
        } else {
          arrive(full);
        }
        at_.advance();
      }
    }
  }

  DenseJob const& job_;
  typename Shape::Shared& shared_;
  RingPlace<Shape::kStages> at_;
};

template <typename Kind, int kWidth>
class WideGroup {
 public:
  using Shape = WideShape<kWidth>;
  using Sum = std::conditional_t<std::is_same_v<Kind, Int8>, std::int32_t, float>;

  __device__ WideGroup(DenseJob const& job, typename Shape::Shared& shared)
      : job_(job),
        shared_(shared),
        group_(threadIdx.x / kGroupThreads),
        first_row_(group_ * kGroupRows + threadIdx.x % kGroupThreads / kWarp * 16),
        turn_parity_(group_ == 0 ? 1 : 0) {
    if (group_ == 1) at_.advance(job.plane_chunks);  // its half comes second
  }

  __device__ void run() {
    for_each_share(job_, [this](WidePanel const& wide, WideShare) { take_panel(wide); });
    write_pending(job_, pending(), n_pending_);
  }

 private:
  __device__ PendingCandidates& pending() { return shared_.pending[threadIdx.x / kWarp]; }

  __device__ void take_panel(WidePanel const& wide) {
    Panel const first = job_.batch.panels[wide.panel_begin];
    Panel const last = job_.batch.panels[wide.panel_begin + wide.n_panels - 1];
    std::uint32_t const n_groups = last.group_begin + last.n_groups - first.group_begin;
    std::uint32_t const n_queries = last.query_begin + last.n_queries - first.query_begin;
    std::uint32_t const n_chunks = job_.plane_chunks;
    TileMask* const masks = shared_.masks[group_];
    sync_threads(kBothBarrier, kGroups * kGroupThreads);  // all have done with the last panel
    load_tests(job_, first.query_begin, n_queries, kWidth, threadIdx.x, kGroups * kGroupThreads,
               shared_.tests);
    sync_threads(kBothBarrier, kGroups * kGroupThreads);  // the tests are there for all
    wait_phase(&shared_.ready, ready_parity_);
    ready_parity_ ^= 1;
    Sum sums[kWidth / 8][4];
    while (true) {
      wait_phase(&shared_.turns[group_], turn_parity_);
      turn_parity_ ^= 1;
      wait_phase(&shared_.full[at_.stage], at_.parity);
      QueuedVisit const visit = shared_.visits[at_.stage];
      if (visit.tile_class == TileClass::kEmpty) break;
      // Before the products: their sums leave few registers.
      if (visit.tile_class != TileClass::kFull) {
        sync_threads(1 + group_, kGroupThreads);  // all have done with the last masks
        load_masks<1>(job_, visit, first.group_begin, n_groups, threadIdx.x % kGroupThreads,
                      kGroupThreads, masks);
        sync_threads(1 + group_, kGroupThreads);  // the masks are there for all
      }
      RingPlace<Shape::kStages> done = at_;  // the oldest stage that this group still holds
#pragma unroll 1
      for (std::uint32_t chunk = 0; chunk < n_chunks; ++chunk) {
        if (chunk > 0) wait_phase(&shared_.full[at_.stage], at_.parity);
        std::uint64_t const rows = describe_matrix(shared_.rows[at_.stage]);
        std::uint64_t const queries = describe_matrix(shared_.queries[chunk]);
        begin_products();
#pragma unroll
        for (std::uint32_t step = 0; step < kChunkBytes / 32; ++step) {
          // 32 bytes on, in the descriptor's units of 16.
          multiply_group(Kind{}, sums, rows + 2 * step, queries + 2 * step, chunk + step > 0);
        }
        commit_products();
        if (chunk > 0) {
          wait_products<1>();
          release(done);
        }
        at_.advance();
      }
      pass_turn();
      RowConstants const rows = load_rows<Kind>(job_, visit, first_row_);
      wait_products<0>();
      release(done);
      at_.advance(n_chunks);  // the other group's half
      ScoreTest<Kind, Sum> test(job_, shared_.tests, masks, visit, wide.panel_begin, rows,
                                first_row_, pending(), n_pending_);
      n_pending_ = test.run(sums);
    }
#pragma unroll 1
    for (std::uint32_t chunk = 0; chunk < n_chunks; ++chunk) {
      wait_phase(&shared_.full[at_.stage], at_.parity);
      sync_warp();  // all have read what the stage says
      release(at_);
    }
    at_.advance(n_chunks);
    pass_turn();
  }

  __device__ void release(RingPlace<Shape::kStages>& at) {
    if (lane_id() == 0) arrive(&shared_.empty[at.stage]);
    at.advance();
  }
  __device__ void pass_turn() {
    sync_warp();  // all have seen that it was theirs
    if (lane_id() == 0) arrive(&shared_.turns[1 - group_]);
  }

  static constexpr unsigned kBothBarrier = 1 + kGroups;

  DenseJob const& job_;
  typename Shape::Shared& shared_;
  std::uint32_t const group_;
  std::uint32_t const first_row_;
  RingPlace<Shape::kStages> at_;
  std::uint32_t turn_parity_;
  std::uint32_t ready_parity_ = 0;
  std::uint32_t n_pending_ = 0;
};

template <typename Kind, int kWidth>
__global__ void __launch_bounds__(WideShape<kWidth>::kThreads, 1)
    scan_wide_sm90(DenseJob const* job_at) {
  begin_behind();
  using Shape = WideShape<kWidth>;
  auto& shared = *reinterpret_cast<typename Shape::Shared*>(shared_memory());
  DenseJob const& job = *job_at;
  if (job.batch.n_wide == 0) return;
  if (threadIdx.x == 0) {
    for (int i = 0; i < Shape::kStages; ++i) {
      init_barrier(&shared.full[i], 1);
      init_barrier(&shared.empty[i], kGroupWarps);
    }
    for (std::uint64_t& turn : shared.turns) init_barrier(&turn, kGroupWarps);
    init_barrier(&shared.ready, 1);
    publish_barriers();
  }
  sync_block();
  if (threadIdx.x < kGroups * kGroupThreads) {
    take_registers<216>();
    WideGroup<Kind, kWidth>(job, shared).run();
  } else {
    leave_registers<72>();
    if (threadIdx.x / kWarp == kGroups * kGroupWarps) WideCopier<kWidth>(job, shared).run();
  }
}

}  // namespace hyrecall::cuda
