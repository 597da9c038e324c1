// What:   after the seed a query has a threshold. Where all of its tiles are in the seed, its
//         depth-th best lower score proves one. Where a sample is, the canonical scores of its best
//         few are a guess at one, which finish() judges. Then the seed's rows that may pass become
//         candidates.
// In/Out: DenseJob: seeds; thresholds, guesses, cuts, pivots, candidates, counts.
// Launch: grid (CTAs a query, queries) of kSelectThreads; set_thresholds() has SeedScratch.
// Cost:   the seed's places, 8 bytes each and some 16,384 a query: twice where few are wanted, else
//         some eight times.
// Oracle: a full sort (tests/emulator, tests/laws/test_l8_exact.py).
#include "kernels/cuda/seeds.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/warp_math.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {
namespace {

constexpr std::uint32_t kFewKeys = 1024;

struct SeedScratch {
  SelectScratch select;
  std::uint32_t bests[kSelectThreads];  // score keys; 0: none
  std::uint64_t few[kFewKeys];          // keys among which those that are wanted are
  std::uint32_t n_few;
  std::uint32_t total;
  std::uint32_t n_kept;
  std::uint32_t guess;  // score key
  std::uint32_t ticket;
};

// Part `part` of `n_parts` of a seed: whole tiles.
struct SeedPart {
  std::uint32_t begin;
  std::uint32_t end;
};
__device__ SeedPart seed_part(std::uint32_t n_rows, std::uint32_t part, std::uint32_t n_parts) {
  std::uint32_t const n_tiles = n_rows / kTileRows;
  return {n_tiles * part / n_parts * kTileRows, n_tiles * (part + 1) / n_parts * kTileRows};
}

struct Best {
  std::uint32_t n_there;
  std::uint32_t least;  // score key of the last that is wanted, where so many are there
};

// Puts the keys that may be among the best `wanted` into scratch.few. If so many threads have a key
// of at least some score, the best keys have it too; and hardly any others, since each thread has
// keys from all over the seed. Every thread calls it and learns whether there was room for them.
__device__ bool find_few(std::uint64_t const* keys, std::uint32_t n, std::uint32_t wanted,
                         SeedScratch& scratch) {
  if (n <= kFewKeys || wanted > kSelectThreads) return false;
  auto const score_at = [&](std::uint32_t i) {
    return Entry<std::uint32_t>{static_cast<std::uint32_t>(load_published(keys + i) >> 32), true};
  };
  std::uint32_t own = 0;
  for_each_entry<std::uint32_t>(n, score_at,
                                [&](std::uint32_t score) { own = score > own ? score : own; });
  if (threadIdx.x == 0) scratch.n_few = 0;
  scratch.bests[threadIdx.x] = own;
  std::uint32_t const least = select_kth<std::uint32_t>(
      kSelectThreads, wanted, scratch.select,
      [&](std::uint32_t i) { return Entry<std::uint32_t>{scratch.bests[i], true}; });
  if (least == 0) return false;  // of no score
  for (std::uint32_t begin = threadIdx.x; begin < n; begin += kLoads * kSelectThreads) {
    std::uint64_t some[kLoads];
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) {
      std::uint32_t const i = begin + k * kSelectThreads;
      some[k] = i < n ? load_published(keys + i) : 0;
    }
#pragma unroll
    for (std::uint32_t k = 0; k < kLoads; ++k) {
      if (static_cast<std::uint32_t>(some[k] >> 32) < least) continue;
      std::uint32_t const place = atomicAdd(&scratch.n_few, 1u);
      if (place < kFewKeys) scratch.few[place] = some[k];
    }
  }
  sync_block();  // all few are there
  return scratch.n_few <= kFewKeys;
}

// Calls use(place, key) with `wanted` of the n keys that no other is above; with all if there are
// fewer.
template <typename Use>
__device__ Best for_each_best(std::uint64_t const* keys, std::uint32_t n, std::uint32_t wanted,
                              SeedScratch& scratch, Use&& use) {
  bool const are_few = find_few(keys, n, wanted, scratch);
  std::uint32_t const n_read = are_few ? scratch.n_few : n;
  auto const key_at = [&](std::uint32_t i) {
    return are_few ? scratch.few[i] : load_published(keys + i);
  };
  auto const entry = [&](std::uint32_t i) {
    std::uint64_t const key = key_at(i);
    return Entry<std::uint32_t>{static_cast<std::uint32_t>(key >> 32), key != 0};
  };
  std::uint32_t const n_there = count_entries<std::uint32_t>(n_read, scratch.total, entry);
  std::uint32_t least = 1;  // of no score
  if (n_there >= wanted) least = select_kth<std::uint32_t>(n_read, wanted, scratch.select, entry);
  // Those of the least score come last, so that they take the places which are left.
  if (threadIdx.x == 0) scratch.n_kept = 0;
#pragma unroll 1
  for (int pass = 0; pass < 2; ++pass) {
    bool const is_least = pass == 1;
    sync_block();
    for (std::uint32_t i = threadIdx.x; i < n_read; i += kSelectThreads) {
      std::uint64_t const key = key_at(i);
      auto const score = static_cast<std::uint32_t>(key >> 32);
      if (is_least ? score != least : score <= least) continue;
      std::uint32_t const place = atomicAdd(&scratch.n_kept, 1u);
      if (place < wanted) use(place, key);
    }
  }
  sync_block();
  return {n_there, least};
}

// By the best of a query's seed; slots: of a sample, where these are.
__device__ void set_threshold(DenseJob const& job, std::uint32_t query, Best const& best,
                              std::uint32_t wanted, std::uint32_t const* slots,
                              SeedScratch& scratch) {
  if (best.n_there < wanted) return;
  QueryBound const bound = job.bounds[query];
  if (slots == nullptr) {
    if (threadIdx.x == 0) {
      job.pivots[query] = best.least;
      // `depth` rows have a lower score of at least the pivot's, so a canonical one of at least
      // that less the constant.
      raise_threshold(job, query, float_down(score_of_key(best.least) - double{bound.constant}));
    }
    return;
  }
  for (std::uint32_t i = threadIdx.x / kLanes; i < wanted; i += kSelectThreads / kLanes) {
    std::uint32_t const key = score_key_by_warp(job, query, slots[i]);
    if (lane_id() == 0) atomicMin(&scratch.guess, key);
  }
  sync_block();
  if (threadIdx.x == 0) {
    float const guess = score_of_key(scratch.guess);
    job.guesses[query] = guess;
    float const cut = cut_for(guess, bound);
    if (cut > job.cuts[query]) job.cuts[query] = cut;
  }
}

}  // namespace

std::size_t seed_bytes() {
  return sizeof(SeedScratch);
}

// Each CTA finds the best of its part; the last to be done finds the best of those.
__global__ void __launch_bounds__(kSelectThreads, 4) set_thresholds(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.y;
  if (query >= job.batch.n_queries) return;
  std::uint32_t const n_rows = job.batch.seed_rows[query];
  std::uint32_t const rank = job.batch.guess_ranks[query];
  std::uint32_t const wanted = rank > 0 ? rank : job.depths[query];
  // Without room for its bests a query has no guess.
  if (n_rows == 0 || wanted == 0 || (rank > 0 && rank > job.capacity)) return;
  auto& scratch = *reinterpret_cast<SeedScratch*>(shared_memory());
  // The bests of all parts lie where there are no candidates yet.
  std::uint32_t n_parts = job.capacity / wanted;
  if (n_parts > gridDim.x) n_parts = gridDim.x;
  if (n_parts <= 1) n_parts = 1;
  if (blockIdx.x >= n_parts) return;
  std::uint64_t* const bests = job.candidates + std::size_t{query} * job.capacity;
  std::uint64_t* const own = bests + std::size_t{blockIdx.x} * wanted;
  std::uint32_t* const slots =  // unused yet
      rank > 0 ? job.score_keys + std::size_t{query} * job.capacity : nullptr;
  if (threadIdx.x == 0) scratch.guess = ~0u;
  SeedPart const part = seed_part(n_rows, blockIdx.x, n_parts);
  std::uint64_t const* keys = job.seeds + std::size_t{query} * job.most_seed_rows + part.begin;
  std::uint32_t n = part.end - part.begin;
  bool is_part = n_parts > 1;
  for (std::uint32_t i = threadIdx.x; is_part && i < wanted; i += kSelectThreads) own[i] = 0;
#pragma unroll 1
  for (;;) {
    Best const best =
        for_each_best(keys, n, wanted, scratch, [&](std::uint32_t place, std::uint64_t key) {
          if (is_part) {
            own[place] = key;
          } else if (slots != nullptr) {
            slots[place] = candidate_slot(key);
          }
        });
    if (!is_part) {
      set_threshold(job, query, best, wanted, slots, scratch);
      return;
    }
    publish_memory();
    sync_block();
    if (threadIdx.x == 0) scratch.ticket = atomicAdd(&job.tickets[query], 1u);
    sync_block();
    if (scratch.ticket + 1 != n_parts) return;
    publish_memory();  // the ticket before what the others have written
    keys = bests;
    n = n_parts * wanted;
    is_part = false;
  }
}

__global__ void __launch_bounds__(kSelectThreads) take_seeds(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.y;
  if (query >= job.batch.n_queries) return;
  std::uint32_t const n_rows = job.batch.seed_rows[query];
  SeedPart const part = seed_part(n_rows, blockIdx.x, gridDim.x);
  std::uint64_t const* const seeds = job.seeds + std::size_t{query} * job.most_seed_rows;
  std::uint64_t* const candidates = job.candidates + std::size_t{query} * job.capacity;
  float const cut = job.cuts[query];
  float const residual = job.greatest_residual;
  float const per_residual = job.bounds[query].per_residual;
  std::uint32_t const lane = lane_id();
  // Warps take tiles: a load of 4 keys a lane.
  constexpr std::uint32_t kKeys = kTileRows / kLanes;
  for (std::uint32_t at = part.begin + threadIdx.x / kLanes * kTileRows; at < part.end;
       at += kSelectThreads / kLanes * kTileRows) {
    std::uint64_t keys[kKeys];
#pragma unroll
    for (std::uint32_t k = 0; k < kKeys; ++k) keys[k] = seeds[at + k * kLanes + lane];
#pragma unroll
    for (std::uint32_t k = 0; k < kKeys; ++k) {
      bool const is_kept =
          keys[k] != 0 && reach_of_lower(candidate_score(keys[k]), residual, per_residual) >= cut;
      std::uint32_t const kept = ballot(is_kept);
      if (kept == 0) continue;
      std::uint32_t place = 0;
      if (lane == 0) place = atomicAdd(&job.counts[query], popcount(kept));
      place = shuffle(place, 0) + popcount(kept & ((1u << lane) - 1));
      if (is_kept && place < job.capacity) candidates[place] = keys[k];
    }
  }
}

}  // namespace hyrecall::cuda
