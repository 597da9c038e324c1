// What:   one list of a query's pool: fused scores by core/fusion_math.hpp, floor, normalisation,
//         offset and limit.
// In/Out: PoolJob: the pools; hits, hit_counts, query_scales.
// Launch: a CTA of kPoolThreads a query, fuse_bytes() of shared memory.
// Cost:   a bitonic sort of the pool in shared memory; of a distribution or a balance one more for
//         each arm, and additions in rank order by one thread: some 4 cycles each, 3 a document.
// Oracle: engine/fusion/fusion.cpp, bit for bit (tests/native/test_pool_device.cpp).
#include "kernels/cuda/kernels.cuh"
#include "kernels/cuda/sort_block.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {
namespace {

struct FuseShared {
  ArmScale scales[kMostPoolArms];
  double weights[kMostPoolArms];
  double means[kMostPoolArms];
  double rooms[kPoolThreads * kMostPoolArms];  // a thread's contributions to one document
  std::uint32_t tables[kMostPoolArms];
  std::uint32_t list_sizes[kMostPoolArms];
  std::uint32_t arms[kMostPoolArms];
  double most;  // what normalisation divides by
  std::uint32_t n_rest;
  std::uint32_t n_passing;
};
constexpr std::size_t kFuseBytes = (sizeof(FuseShared) + 15) / 16 * 16;

// A pool as the kernel reads it.
struct Pool {
  std::uint32_t query;
  std::uint32_t n_docs;
  std::size_t base;
  FuseShared* shared;
  unsigned char* records;  // what is sorted
};

__device__ float score_at(PoolJob const& job, Pool const& pool, std::uint32_t doc,
                          std::uint32_t arm) {
  return job.scores[(pool.base + doc) * job.n_arms + arm];
}
__device__ std::int32_t rank_at(PoolJob const& job, Pool const& pool, std::uint32_t doc,
                                std::uint32_t arm) {
  return job.ranks[(pool.base + doc) * job.n_arms + arm];
}

// The lowest and the highest score that counts. A warp calls it; lane 0 has them. Lanes take runs
// of documents and are joined in their order.
__device__ ScoreRange range_of(PoolJob const& job, Pool const& pool, std::uint32_t arm) {
  std::uint32_t const a_lane = (pool.n_docs + 31) / 32;
  std::uint32_t const begin = lane_id() * a_lane;
  std::uint32_t const end = begin + a_lane < pool.n_docs ? begin + a_lane : pool.n_docs;
  bool const is_complete = job.fusion.is_complete != 0;
  ScoreRange own;
#pragma unroll 1
  for (std::uint32_t doc = begin; doc < end; ++doc) {
    float const score = score_at(job, pool, doc, arm);
    if (counts(score, rank_at(job, pool, doc, arm), is_complete)) own.add(score);
  }
#pragma unroll 1
  for (unsigned by = 1; by < 32; by *= 2) {
    ScoreRange later;
    later.low = shuffle_down(own.low, by);
    later.high = shuffle_down(own.high, by);
    later.any = shuffle_down(own.any ? 1u : 0u, by) != 0 && lane_id() + by < 32;
    own.join(later);
  }
  return own;
}

// Puts an arm's scores that count into rank order: its list, then the others by falling score. All
// threads call it; gives the number of the scores, which thread 0 may read.
__device__ std::uint32_t put_in_rank_order(PoolJob const& job, Pool const& pool, std::uint32_t arm,
                                           std::uint32_t n_sorted) {
  auto* const values = reinterpret_cast<float*>(pool.records);
  auto* const keys = reinterpret_cast<std::uint32_t*>(values + n_sorted);
  PoolArm const& from = job.arms[arm];
  std::uint32_t const n_listed = from.counts[pool.query];
  if (threadIdx.x == 0) pool.shared->n_rest = 0;
  sync_block();  // and thread 0 has done with the values of the arm before
  for (std::uint32_t i = threadIdx.x; i < n_listed; i += kPoolThreads)
    values[i] = from.scores[from.begins[pool.query] + i];
  for (std::uint32_t doc = threadIdx.x; job.fusion.is_complete != 0 && doc < pool.n_docs;
       doc += kPoolThreads) {
    float const score = score_at(job, pool, doc, arm);
    if (rank_at(job, pool, doc, arm) > 0 || score == kNoScore) continue;
    keys[atomicAdd(&pool.shared->n_rest, 1u)] = score_key(score);
  }
  sync_block();
  std::uint32_t const n_rest = pool.shared->n_rest;
  std::uint32_t const n_keys = n_rest > 0 ? power_of_two_from(n_rest) : 0;
  for (std::uint32_t i = n_rest + threadIdx.x; i < n_keys; i += kPoolThreads) keys[i] = 0;
  sort_block<kPoolThreads>(
      n_keys, [=](std::uint32_t i, std::uint32_t j) { return keys[i] > keys[j]; },
      [=](std::uint32_t i, std::uint32_t j) { exchange_at(keys, i, j); });
  for (std::uint32_t i = threadIdx.x; i < n_rest; i += kPoolThreads)
    values[n_listed + i] = score_of_key(keys[i]);
  sync_block();
  return n_listed + n_rest;
}

// Scales and weights of the query, for all threads.
__device__ void weigh(PoolJob const& job, Pool const& pool, std::uint32_t n_sorted) {
  FuseShared& shared = *pool.shared;
  for (std::uint32_t arm = threadIdx.x / 32; arm < job.n_arms; arm += kPoolWarps) {
    std::uint32_t const n_listed = job.arms[arm].counts[pool.query];
    // What was completed of an arm that lists nothing adds nothing.
    ScoreRange const range = n_listed > 0 ? range_of(job, pool, arm) : ScoreRange{};
    if (lane_id() != 0) continue;
    shared.scales[arm] = {job.fusion.scales[arm], range, {0.0, 0.0}};
    shared.weights[arm] = job.fusion.weights[arm];
    shared.means[arm] = 0.0;
    shared.tables[arm] = kNone32;
    shared.list_sizes[arm] = n_listed;
  }
  sync_block();
  std::uint32_t n_lexical = 0;
  std::uint32_t n_dense = 0;
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) {
    n_lexical += job.arms[arm].kind == PoolArmKind::kLexical ? 1 : 0;
    n_dense += job.arms[arm].kind == PoolArmKind::kDense ? 1 : 0;
  }
  bool const balanced = job.fusion.has_balance != 0 && n_lexical > 0 && n_dense > 0;
#pragma unroll 1
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) {
    bool const has_moments = job.fusion.scales[arm] == FusionScale::kDistribution;
    bool const has_mean = balanced && job.arms[arm].kind != PoolArmKind::kListed;
    if (!shared.scales[arm].range.any || (!has_moments && !has_mean)) continue;
    std::uint32_t const n = put_in_rank_order(job, pool, arm, n_sorted);
    // Their sums are rounded in this order.
    if (threadIdx.x != 0) continue;
    auto const* const values = reinterpret_cast<float const*>(pool.records);
    if (has_moments) shared.scales[arm].moments = moments(values, n);
    if (has_mean) shared.means[arm] = mean_worth(shared.scales[arm], values, n);
  }
  if (threadIdx.x == 0 && balanced) {
    for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) shared.arms[arm] = arm;
    balance_weights(job.fusion.balance, {shared.arms, n_lexical},
                    {shared.arms + n_lexical, n_dense}, {shared.scales, job.n_arms},
                    {shared.means, job.n_arms}, {shared.weights, job.n_arms});
  }
  sync_block();
}

__device__ FusionRules rules_of(PoolJob const& job, FuseShared const& shared) {
  return {job.fusion.kind,          job.fusion.is_complete != 0,  job.fusion.n_arms_a_doc,
          job.fusion.rank_constant, {shared.weights, job.n_arms}, {shared.scales, job.n_arms}};
}

// What explain() scales a hit with again.
__device__ void write_scales(PoolJob const& job, Pool const& pool) {
  if (threadIdx.x != 0) return;
  FuseShared const& shared = *pool.shared;
  double* to = job.query_scales + std::size_t{pool.query} * scales_a_query(job.n_arms);
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) {
    *to++ = shared.scales[arm].first_number();
    *to++ = shared.scales[arm].second_number();
  }
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) *to++ = shared.weights[arm];
  *to = shared.most;
}

__device__ void write_hit(PoolJob const& job, Pool const& pool, std::uint32_t doc, double score,
                          std::size_t to) {
  std::size_t const at = pool.base + doc;
  job.hit_docs[to] = job.docs[at];
  job.hit_scores[to] =
      job.fusion.is_normalized != 0 ? normalized_score(score, pool.shared->most) : score;
  for (std::uint32_t arm = 0; arm < job.n_arms; ++arm) {
    job.hit_arm_scores[to * job.n_arms + arm] = job.scores[at * job.n_arms + arm];
    job.hit_arm_ranks[to * job.n_arms + arm] = job.ranks[at * job.n_arms + arm];
  }
}

}  // namespace

std::size_t fuse_bytes(std::uint32_t n_sorted) {
  return kFuseBytes + n_sorted * (sizeof(double) + sizeof(std::uint32_t));
}

__global__ void __launch_bounds__(kPoolThreads, 8) fuse_pools(PoolJob const* job_at) {
  begin_behind();
  PoolJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.n_queries) return;
  auto& shared = *reinterpret_cast<FuseShared*>(shared_memory());
  Pool const pool{query, job.doc_counts[query], first_doc(job, query), &shared,
                  shared_memory() + kFuseBytes};
  std::uint32_t const n = pool.n_docs;
  std::uint32_t const n_sorted = power_of_two_from(n);
  weigh(job, pool, n_sorted);

  auto* const scores = reinterpret_cast<double*>(pool.records);
  auto* const docs = reinterpret_cast<std::uint32_t*>(scores + n_sorted);
  FusionRules const rules = rules_of(job, shared);
  double* const room = shared.rooms + threadIdx.x * kMostPoolArms;
#pragma unroll 1
  for (std::uint32_t doc = threadIdx.x; doc < n_sorted; doc += kPoolThreads) {
    docs[doc] = doc < n ? doc : kNone32;
    if (doc >= n) continue;
    std::size_t const at = (pool.base + doc) * job.n_arms;
    scores[doc] = fused_score(rules, {job.scores + at, job.n_arms}, {job.ranks + at, job.n_arms},
                              {room, job.n_arms});
  }
  std::int64_t const* const seqs = job.seqs + pool.base;
  sort_block<kPoolThreads>(
      n_sorted,
      [=](std::uint32_t i, std::uint32_t j) {
        if (docs[i] == kNone32 || docs[j] == kNone32) return docs[i] < docs[j];
        return scores[i] != scores[j] ? scores[i] > scores[j] : seqs[docs[i]] < seqs[docs[j]];
      },
      [=](std::uint32_t i, std::uint32_t j) {
        exchange_at(scores, i, j);
        exchange_at(docs, i, j);
      });

  PoolFusion const& fusion = job.fusion;
  if (threadIdx.x == 0) {
    shared.n_passing = 0;
    shared.most = 0.0;
    if (fusion.is_normalized != 0 && n > 0) {
      double const best = fusion.kind == FusionKind::kNone
                              ? scores[0]
                              : best_of_table(rules, 0, {shared.tables, job.n_arms},
                                              {shared.list_sizes, job.n_arms}, {room, job.n_arms});
      shared.most = fusion.kind == FusionKind::kNone || 0.0 < best ? best : 0.0;
    }
  }
  sync_block();
  write_scales(job, pool);
  std::uint32_t const n_wanted =
      fusion.offset + fusion.limit < n ? fusion.offset + fusion.limit : n;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < n_wanted; i += kPoolThreads) {
    bool const passes =
        fusion.is_strict != 0 ? scores[i] > fusion.min_fused : scores[i] >= fusion.min_fused;
    if (passes) atomicAdd(&shared.n_passing, 1u);
  }
  sync_block();
  std::uint32_t const n_kept = shared.n_passing;
  std::uint32_t const begin = fusion.offset < n_kept ? fusion.offset : n_kept;
#pragma unroll 1
  for (std::uint32_t i = begin + threadIdx.x; i < n_kept; i += kPoolThreads)
    write_hit(job, pool, docs[i], scores[i], std::size_t{query} * fusion.limit + (i - begin));
  if (threadIdx.x == 0) job.hit_counts[query] = n_kept - begin;
}

}  // namespace hyrecall::cuda
