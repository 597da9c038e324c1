// What:   greedy choice by maximal marginal relevance, within a budget of tokens.
// In/Out: ShapeJob: the lists, scores, tokens, budgets; counts, chosen, values, relevances,
//         similarities, nearest.
// Launch: a CTA of kShapeThreads a query, mmr_bytes() of shared memory.
// Cost:   a warp looks after every n-th entry and compares only its best ones with what has been
//         chosen since, until its best is up to date: a few rows a choice.
// Oracle: engine/shaping/shaping.cpp, bit for bit (tests/native/test_shape_device.cpp).
#include "kernels/cuda/shape.cuh"

namespace hyrecall::cuda {
namespace {

// An entry that may be chosen next. kNone32: none.
struct Offer {
  double value;
  std::uint32_t place;
};

struct MmrShared {
  Offer offers[kShapeWarps];  // each up to date
  ScoreRange range;           // of the list's scores
  std::int64_t left;          // of the budget
  std::uint32_t is_bounded;
  std::uint32_t n_chosen;
  std::uint32_t n_vectors;  // of the chosen
  std::uint32_t is_done;
};

// A query's list.
struct ShapeList {
  std::uint32_t query;
  std::uint32_t begin;
  std::uint32_t n;
};

__device__ bool comes_first(Offer const& a, Offer const& b) {
  if (a.place == kNone32 || b.place == kNone32) return a.place != kNone32;
  return is_chosen_before(a.value, a.place, b.value, b.place);
}

__device__ double value_at(ShapeJob const& job, std::uint32_t entry) {
  return mmr_value(job.relevance_weight, job.entry_relevance[entry], job.entry_similarity[entry]);
}

// The range of the list's scores: each lane takes a run of them, and runs are joined in their
// order. The first warp calls it; lane 0 has the range.
__device__ ScoreRange range_of(ShapeJob const& job, ShapeList const& list) {
  std::uint32_t const run = (list.n + 31) / 32;
  ScoreRange range;
#pragma unroll 1
  for (std::uint32_t i = 0; i < run; ++i) {
    std::uint32_t const place = lane_id() * run + i;
    if (place < list.n) range.add(job.scores[list.begin + place]);
  }
  for (unsigned by = 1; by < 32; by *= 2) {
    ScoreRange const later{shuffle_down(range.low, by), shuffle_down(range.high, by),
                           shuffle_down(range.any ? 1u : 0u, by) != 0};
    if (lane_id() + by < 32) range.join(later);
  }
  return range;
}

// The best of the warp's entries by what is known of them; all lanes have it.
__device__ Offer best_known(ShapeJob const& job, ShapeList const& list, MmrShared const& shared) {
  Offer best{0.0, kNone32};
#pragma unroll 1
  for (std::uint32_t place = threadIdx.x / 32 + kShapeWarps * lane_id(); place < list.n;
       place += kShapeThreads) {
    std::uint32_t const entry = list.begin + place;
    if (job.entry_compared[entry] == kNone32) continue;
    // What does not fit now never will.
    if (shared.is_bounded != 0 && job.tokens[entry] > shared.left) continue;
    Offer const one{value_at(job, entry), place};
    if (comes_first(one, best)) best = one;
  }
  for (unsigned by = 16; by >= 1; by /= 2) {
    Offer const other{shuffle(best.value, lane_id() ^ by), shuffle(best.place, lane_id() ^ by)};
    if (comes_first(other, best)) best = other;
  }
  return best;
}

// Compares an entry with the vectors that were chosen since it was last compared. A warp calls it.
__device__ void compare(ShapeJob const& job, ShapeList const& list, std::uint32_t place,
                        std::uint32_t n_vectors) {
  std::uint32_t const entry = list.begin + place;
  std::uint32_t const* const vectors = job.vectors + std::size_t{list.query} * job.n_wanted;
  std::uint32_t const before = job.entry_nearest[entry];
  NearestChosen known{job.entry_similarity[entry],
                      before == kNone32 ? std::int64_t{-1} : std::int64_t{before}};
  if (has_vector(job, entry)) {
#pragma unroll 1
    for (std::uint32_t i = job.entry_compared[entry]; i < n_vectors; ++i)
      known.add(cosine_of(job, list.begin + vectors[i], entry), vectors[i]);
  }
  sync_warp();  // all have read what lane 0 changes
  if (lane_id() == 0) {
    job.entry_similarity[entry] = known.similarity;
    job.entry_nearest[entry] = known.entry < 0 ? kNone32 : static_cast<std::uint32_t>(known.entry);
    job.entry_compared[entry] = n_vectors;
  }
  sync_warp();
}

// The warp's best entry, compared with all that are chosen.
__device__ Offer best_offer(ShapeJob const& job, ShapeList const& list, MmrShared const& shared) {
#pragma unroll 1
  for (;;) {
    Offer const best = best_known(job, list, shared);
    if (best.place == kNone32) return best;
    if (job.entry_compared[list.begin + best.place] == shared.n_vectors) return best;
    compare(job, list, best.place, shared.n_vectors);
  }
}

// One thread calls it.
__device__ void choose(ShapeJob const& job, ShapeList const& list, Offer const& offer,
                       MmrShared& shared) {
  std::uint32_t const entry = list.begin + offer.place;
  std::size_t const first = std::size_t{list.query} * job.n_wanted;
  std::size_t const to = first + shared.n_chosen;
  job.chosen[to] = offer.place;
  job.values[to] = offer.value;
  job.relevances[to] = job.entry_relevance[entry];
  job.similarities[to] = job.entry_similarity[entry];
  job.nearest[to] = job.entry_nearest[entry];
  job.entry_compared[entry] = kNone32;
  if (shared.is_bounded != 0) shared.left -= job.tokens[entry];
  shared.n_chosen += 1;
  if (!has_vector(job, entry)) return;
  job.vectors[first + shared.n_vectors] = offer.place;
  shared.n_vectors += 1;
}

}  // namespace

std::size_t mmr_bytes() {
  return sizeof(MmrShared);
}

__global__ void __launch_bounds__(kShapeThreads, 8) diversify_lists(ShapeJob const* job_at) {
  ShapeJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.n_queries) return;
  auto& shared = *reinterpret_cast<MmrShared*>(shared_memory());
  ShapeList const list{query, job.offsets[query], job.offsets[query + 1] - job.offsets[query]};
  std::uint32_t const n_wanted = list.n < job.n_wanted ? list.n : job.n_wanted;
  if (threadIdx.x < 32) {
    ScoreRange const range = range_of(job, list);
    if (lane_id() == 0) shared.range = range;
  }
  if (threadIdx.x == 0) {
    shared.is_bounded = job.tokens != nullptr && job.budgets[query] > 0 ? 1 : 0;
    shared.left = shared.is_bounded != 0 ? job.budgets[query] : 0;
    shared.n_chosen = 0;
    shared.n_vectors = 0;
    shared.is_done = n_wanted == 0 ? 1 : 0;
  }
  sync_block();
#pragma unroll 1
  for (std::uint32_t place = threadIdx.x; place < list.n; place += kShapeThreads) {
    std::uint32_t const entry = list.begin + place;
    job.entry_relevance[entry] = relevance_of(job.scale, job.scores[entry], shared.range);
    job.entry_similarity[entry] = 0.0;
    job.entry_nearest[entry] = kNone32;
    job.entry_compared[entry] = 0;
  }
  // The first of the list, whatever the weight and whatever it costs. This thread wrote what is
  // known of it.
  if (threadIdx.x == 0 && n_wanted > 0) choose(job, list, {value_at(job, list.begin), 0}, shared);
  sync_block();
#pragma unroll 1
  while (shared.is_done == 0 && shared.n_chosen < n_wanted) {
    Offer const own = best_offer(job, list, shared);
    if (lane_id() == 0) shared.offers[threadIdx.x / 32] = own;
    sync_block();
    if (threadIdx.x == 0) {
      Offer best = shared.offers[0];
      for (std::uint32_t w = 1; w < kShapeWarps; ++w)
        if (comes_first(shared.offers[w], best)) best = shared.offers[w];
      if (best.place == kNone32) {
        shared.is_done = 1;
      } else {
        choose(job, list, best, shared);
      }
    }
    sync_block();
  }
  if (threadIdx.x == 0) job.counts[query] = shared.n_chosen;
}

}  // namespace hyrecall::cuda
