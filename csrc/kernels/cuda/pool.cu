// What:   lays lists out in one block of memory, copies it to the device in one piece, makes hits
//         of them, copies these back in one piece and waits once.
// In/Out: PoolParams, checked by device/pool_device.cpp.
// Launch: the three kernels of pool.cuh.
// Cost:   a copy each way, three launches.
// Oracle: the CPU path, bit for bit (tests/native/test_pool_device.cpp, tests/laws).
#include <algorithm>
#include <bit>
#include <mutex>
#include <set>

#include "kernels/cuda/kept_lists.cuh"
#include "kernels/cuda/layout.cuh"
#include "kernels/cuda/pool.cuh"
#include "kernels/cuda/segment.cuh"
#include "kernels/cuda/workspace.cuh"

namespace hyrecall::cuda {
namespace {

struct PoolPlaces {
  std::size_t input_bytes;
  std::size_t result_begin;
  std::size_t result_bytes;
  std::size_t all_bytes;
  PoolJob job;  // of device memory
};

PoolArm lay_out_arm(PoolArmParams const& from, std::size_t n_queries, BlockLayout& layout) {
  PoolArm out{};
  out.kind = from.kind;
  out.begins = layout.copy(from.begins, n_queries);
  out.counts = layout.copy(from.counts, n_queries);
  auto const* const kept = static_cast<KeptLists const*>(from.lists);
  if (kept != nullptr) {
    out.scores = kept->scores;
    out.seqs = kept->seqs;
    out.slots = kept->slots;
    out.queries = kept->queries;
    out.inverse_query_norms = kept->inverse_norms;
  } else {
    out.scores = layout.copy(from.scores);
    out.seqs = layout.copy(from.seqs, from.scores.n);
    out.slots = layout.copy(from.slots, from.scores.n);
  }
  out.answers = layout.copy(from.answers, n_queries);
  if (from.table == nullptr) {
    out.segment_tiles = layout.copy(from.segment_tiles);
    out.n_segments = static_cast<std::uint32_t>(from.segment_tiles.n);
    return out;
  }
  auto const& table = *static_cast<ColumnTable const*>(from.table);
  out.segment_tiles = table.segment_tiles.data();
  out.n_segments = table.n_segments;
  if (from.kind == PoolArmKind::kLexical) {
    out.lexical = lay_out_texts(from.text, table.lexical.data(), layout);
    return out;
  }
  out.row_type = table.type;
  out.dim = table.dim;
  out.segments = table.segments.data();
  return out;
}

void lay_out_pools(PoolJob& job, std::size_t n_docs, BlockLayout& layout) {
  job.doc_counts = layout.room<std::uint32_t>(job.n_queries);
  job.seqs = layout.room<std::int64_t>(n_docs);
  job.docs = layout.room<PoolDoc>(n_docs);
  job.scores = layout.room<float>(n_docs * job.n_arms);
  job.ranks = layout.room<std::int32_t>(n_docs * job.n_arms);
}

// With memory, writes the job and what it brings too. The job itself stands at the beginning.
PoolPlaces lay_out_pool(PoolParams const& params, std::uint8_t* host, std::uint8_t* device) {
  BlockLayout layout(host, device);
  PoolPlaces places{};
  PoolJob& job = places.job;
  (void)layout.room<PoolJob>(1);
  job.n_queries = params.n_queries;
  job.n_arms = static_cast<std::uint32_t>(params.arms.n);
  job.fusion = params.fusion;
  std::size_t n_docs = 0;
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) {
    job.arms[arm] = lay_out_arm(params.arms.data[arm], params.n_queries, layout);
    n_docs += params.arms.data[arm].scores.n;
  }
  places.input_bytes = layout.bytes();

  bool const wants_pools = params.wants_pools != 0;
  if (!wants_pools) lay_out_pools(job, n_docs, layout);
  places.result_begin = layout.bytes();
  std::size_t const n_hits = std::size_t{params.n_queries} * params.fusion.limit;
  job.hit_counts = layout.room<std::uint32_t>(params.n_queries);
  job.hit_docs = layout.room<PoolDoc>(n_hits);
  job.hit_scores = layout.room<double>(n_hits);
  job.hit_arm_scores = layout.room<float>(n_hits * job.n_arms);
  job.hit_arm_ranks = layout.room<std::int32_t>(n_hits * job.n_arms);
  job.query_scales =
      layout.room<double>(std::size_t{params.n_queries} * scales_a_query(job.n_arms));
  if (wants_pools) lay_out_pools(job, n_docs, layout);
  places.result_bytes = layout.bytes() - places.result_begin;
  places.all_bytes = layout.bytes();
  layout.write_first(job);
  return places;
}

// The most shared memory that a kernel asks for, allowed once a device.
void allow_shared_memory(int device) {
  // Never destroyed: CUDA may be gone before static objects are.
  static auto* const known = new std::set<int>;
  static auto* const mutex = new std::mutex;
  std::lock_guard const lock(*mutex);
  if (known->count(device) > 0) return;
  check(cudaFuncSetAttribute(join_lists, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(join_bytes(kMostPoolDocs))));
  check(cudaFuncSetAttribute(fuse_pools, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(fuse_bytes(kMostPoolDocs))));
  known->insert(device);
}

// CTAs that share the documents of a query: enough for a few queries to keep the device busy.
unsigned complete_ctas(unsigned n_queries) {
  return std::clamp(1024u / n_queries, 1u, 32u);
}

void make_hits(PoolParams const& params) {
  if (params.n_queries == 0) return;
  DeviceScope const device_scope(params.device);
  allow_shared_memory(params.device);
  PoolPlaces places = lay_out_pool(params, nullptr, nullptr);
  WorkspacePool::Loan workspace = WorkspacePool::of_device(params.device).borrow();
  Rooms const rooms{std::bit_ceil(places.input_bytes), std::bit_ceil(places.result_bytes)};
  workspace.reserve(rooms, places.all_bytes);
  std::uint8_t* const memory = workspace->memory.data();
  places = lay_out_pool(params, workspace->input.data(), memory);
  cudaStream_t const stream = workspace->stream;
  check(cudaMemcpyAsync(memory, workspace->input.data(), places.input_bytes, cudaMemcpyHostToDevice,
                        stream));
  // What no hit fills is copied as well.
  check(cudaMemsetAsync(memory + places.result_begin, 0, places.result_bytes, stream));
  auto const* const job = reinterpret_cast<PoolJob const*>(memory);
  unsigned const n = params.n_queries;
  std::uint32_t const n_sorted = std::bit_ceil(std::max(params.most_entries, 1u));
  check(launch(join_lists, n, kPoolThreads, join_bytes(n_sorted), stream, job));
  check(launch(complete_pools, dim3(complete_ctas(n), n), kPoolThreads, 0, stream, job));
  check(launch(fuse_pools, n, kPoolThreads, fuse_bytes(n_sorted), stream, job));
  check(cudaMemcpyAsync(workspace->results.data(), memory + places.result_begin,
                        places.result_bytes, cudaMemcpyDeviceToHost, stream));
  check(cudaStreamSynchronize(stream));

  auto const on_host = [&]<typename T>(T* at) {
    auto const* const place = reinterpret_cast<std::uint8_t const*>(at);
    return reinterpret_cast<T const*>(workspace->results.data() +
                                      (place - (memory + places.result_begin)));
  };
  PoolJob const& made = places.job;
  PoolResults results{};
  results.hit_counts = on_host(made.hit_counts);
  results.hit_docs = on_host(made.hit_docs);
  results.hit_scores = on_host(made.hit_scores);
  results.hit_arm_scores = on_host(made.hit_arm_scores);
  results.hit_arm_ranks = on_host(made.hit_arm_ranks);
  results.query_scales = on_host(made.query_scales);
  if (params.wants_pools != 0) {
    results.doc_counts = on_host(made.doc_counts);
    results.seqs = on_host(made.seqs);
    results.docs = on_host(made.docs);
    results.scores = on_host(made.scores);
    results.ranks = on_host(made.ranks);
  }
  params.take(params.context, results);
}

}  // namespace

Status run_pool(PoolParams const* params) {
  return guarded([&] { make_hits(*params); });
}

}  // namespace hyrecall::cuda
