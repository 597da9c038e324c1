// What:   the union of a query's lists, each document once, with its score and rank in every list.
// In/Out: PoolJob: the arms' lists; doc_counts, seqs, docs, scores, ranks.
// Launch: a CTA of kPoolThreads a query, join_bytes() of shared memory.
// Cost:   a bitonic sort of the lists' entries in shared memory, 12 bytes each.
// Oracle: engine/recall.cpp's join_lists, bit for bit (tests/native/test_pool_device.cpp).
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/sort_block.cuh"

namespace hyrecall::cuda {
namespace {

// An entry of a list: its arm, then its place.
constexpr std::uint32_t kPlaceBits = 16;

struct JoinShared {
  std::uint32_t warp_counts[kPoolWarps];
};
constexpr std::size_t kJoinBytes = (sizeof(JoinShared) + 15) / 16 * 16;

// The rank of a place in a list: 1 + how many entries score higher, which come first.
__device__ std::int32_t shared_rank(float const* scores, std::uint32_t place) {
  std::uint32_t const n_above =
      find_first(0, place, [=](std::uint32_t middle) { return scores[middle] > scores[place]; });
  return static_cast<std::int32_t>(n_above) + 1;
}

// Writes a document: the entries from i on that have its seq are its.
__device__ void write_doc(PoolJob const& job, std::uint32_t query, std::size_t at,
                          std::int64_t const* seqs, std::uint32_t const* entries, std::uint32_t i,
                          std::uint32_t n) {
  std::uint32_t const n_arms = job.n_arms;
  float* const scores = job.scores + at * n_arms;
  std::int32_t* const ranks = job.ranks + at * n_arms;
  for (std::uint32_t arm = 0; arm < n_arms; ++arm) {
    scores[arm] = kNoScore;
    ranks[arm] = 0;
  }
  for (std::uint32_t k = i; k < n && seqs[k] == seqs[i]; ++k) {
    std::uint32_t const number = entries[k] >> kPlaceBits;
    std::uint32_t const place = entries[k] & ((1u << kPlaceBits) - 1);
    PoolArm const& arm = job.arms[number];
    std::uint32_t const entry = arm.begins[query] + place;
    scores[number] = arm.scores[entry];
    ranks[number] = job.fusion.ranks_by_place != 0
                        ? static_cast<std::int32_t>(place) + 1
                        : shared_rank(arm.scores + arm.begins[query], place);
    if (k > i) continue;
    std::uint32_t const slot = arm.slots[entry];
    std::uint32_t const segment = find_run(arm.segment_tiles, arm.n_segments, slot / kTileRows);
    job.seqs[at] = seqs[i];
    job.docs[at] = {segment, slot - arm.segment_tiles[segment] * kTileRows};
  }
}

}  // namespace

std::size_t join_bytes(std::uint32_t n_sorted) {
  return kJoinBytes + n_sorted * (sizeof(std::int64_t) + sizeof(std::uint32_t));
}

__global__ void __launch_bounds__(kPoolThreads) join_lists(PoolJob const* job_at) {
  begin_behind();
  PoolJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.n_queries) return;
  auto& shared = *reinterpret_cast<JoinShared*>(shared_memory());
  std::uint32_t n = 0;
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) n += job.arms[arm].counts[query];
  // One list is its union as it is.
  std::uint32_t const n_sorted = job.n_arms > 1 ? power_of_two_from(n) : n;
  auto* const seqs = reinterpret_cast<std::int64_t*>(shared_memory() + kJoinBytes);
  auto* const entries = reinterpret_cast<std::uint32_t*>(seqs + n_sorted);
  std::uint32_t first = 0;
  for (std::uint32_t number = 0; number < job.n_arms; ++number) {
    PoolArm const& arm = job.arms[number];
    std::uint32_t const count = arm.counts[query];
    for (std::uint32_t i = threadIdx.x; i < count; i += kPoolThreads) {
      seqs[first + i] = arm.seqs[arm.begins[query] + i];
      entries[first + i] = number << kPlaceBits | i;
    }
    first += count;
  }
  for (std::uint32_t i = n + threadIdx.x; i < n_sorted; i += kPoolThreads) {
    seqs[i] = 0x7fffffffffffffffLL;
    entries[i] = kNone32;
  }
  auto const before = [=](std::uint32_t i, std::uint32_t j) {
    return seqs[i] != seqs[j] ? seqs[i] < seqs[j] : entries[i] < entries[j];
  };
  auto const exchange = [=](std::uint32_t i, std::uint32_t j) {
    exchange_at(seqs, i, j);
    exchange_at(entries, i, j);
  };
  sort_block<kPoolThreads>(job.n_arms > 1 ? n_sorted : 0, before, exchange);

  std::size_t const base = first_doc(job, query);
  std::uint32_t n_docs = 0;
#pragma unroll 1
  for (std::uint32_t begin = 0; begin < n; begin += kPoolThreads) {
    std::uint32_t const i = begin + threadIdx.x;
    bool const is_first = i < n && (i == 0 || seqs[i] != seqs[i - 1]);
    std::uint32_t const bits = ballot(is_first);
    if (lane_id() == 0) shared.warp_counts[threadIdx.x / 32] = popcount(bits);
    sync_block();
    std::uint32_t doc = n_docs + popcount(bits & ((1u << lane_id()) - 1));
    for (std::uint32_t warp = 0; warp < kPoolWarps; ++warp) {
      if (warp < threadIdx.x / 32) doc += shared.warp_counts[warp];
      n_docs += shared.warp_counts[warp];
    }
    if (is_first) write_doc(job, query, base + doc, seqs, entries, i, n);
    sync_block();  // the counts have been read
  }
  if (threadIdx.x == 0) job.doc_counts[query] = n_docs;
}

}  // namespace hyrecall::cuda
