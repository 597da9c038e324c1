// What:   after the rest of a query's tiles (of a text's: after each stage), its depth-th best
//         candidate becomes a threshold and what lies below it goes; at the end the best rows by
//         (score desc, seq asc) are picked and sorted.
// In/Out: DenseJob: candidates, counts, score_keys, guesses; thresholds, cuts, pivots, results.
// Launch: a CTA of kSelectThreads a query; finish() has sorted_rows(depth) x 16 bytes after
//         Scratch.
// Cost:   a few passes over the candidates of a query, from L2: some thousands (dense.md).
// Oracle: a full sort (tests/emulator, tests/laws/test_l8_exact.py).
#include "kernels/cuda/select.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {
namespace {

struct Scratch {
  SelectScratch select;
  std::uint32_t total;
  std::uint32_t n_kept;
  std::uint32_t warp_counts[kSelectThreads / 32];
};
constexpr std::size_t kScratchBytes = (sizeof(Scratch) + 15) / 16 * 16;

// Keeps the candidates that keep() holds, in place and in order; gives their number.
template <typename Keep>
__device__ std::uint32_t compact(std::uint64_t* candidates, std::uint32_t n, Scratch& scratch,
                                 Keep&& keep) {
  std::uint32_t const warp = threadIdx.x / 32;
  std::uint32_t n_kept = 0;
  for (std::uint32_t begin = 0; begin < n; begin += kSelectThreads) {
    std::uint32_t const i = begin + threadIdx.x;
    std::uint64_t const candidate = i < n ? candidates[i] : 0;
    bool const kept = i < n && keep(candidate);
    std::uint32_t const bits = ballot(kept);
    if (lane_id() == 0) scratch.warp_counts[warp] = popcount(bits);
    sync_block();  // all have read their candidate, and the counts are there
    std::uint32_t before = n_kept;
    std::uint32_t all = 0;
    for (std::uint32_t w = 0; w < kSelectThreads / 32; ++w) {
      if (w < warp) before += scratch.warp_counts[w];
      all += scratch.warp_counts[w];
    }
    if (kept) candidates[before + popcount(bits & ((1u << lane_id()) - 1))] = candidate;
    n_kept += all;
    sync_block();  // the counts have been read
  }
  return n_kept;
}

}  // namespace

std::size_t select_bytes() {
  return kScratchBytes;
}

__global__ void __launch_bounds__(kSelectThreads)
    cut_candidates(DenseJob const* job_at, std::uint32_t stage) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.batch.n_queries || stage >= job.batch.n_stages) return;
  if (job.batch.seed_rows[query] > 0 && job.batch.guess_ranks[query] == 0) return;  // seeds.cu did
  auto& scratch = *reinterpret_cast<Scratch*>(shared_memory());
  std::uint32_t const n_found = job.counts[query];
  std::uint32_t const n = n_candidates(job, query);
  std::uint32_t const depth = job.depths[query];
  sync_block();  // all have read counts, which thread 0 changes below
  if (threadIdx.x == 0 && n_found > job.capacity) job.overflows[query] = 1;
  if (n < depth || depth == 0) {
    // Fewer than asked for: all stay, and all of them are scored in the end.
    if (threadIdx.x == 0) {
      job.counts[query] = n;
      job.pivots[query] = 0;
    }
    return;
  }
  std::uint64_t* const candidates = job.candidates + std::size_t{query} * job.capacity;
  std::uint32_t const pivot =
      select_kth<std::uint32_t>(n, depth, scratch.select, [&](std::uint32_t i) {
        return Entry<std::uint32_t>{static_cast<std::uint32_t>(candidates[i] >> 32), true};
      });
  bool const is_exact = job.is_exact != 0;
  QueryBound const bound = is_exact ? QueryBound{0.0f, 0.0f} : job.bounds[query];
  if (threadIdx.x == 0) {
    job.pivots[query] = pivot;
    // `depth` rows have a lower score of at least the pivot's, so a canonical one of at least that
    // less the constant.
    float const best = score_of_key(pivot);
    raise_threshold(job, query, is_exact ? best : float_down(best - double{bound.constant}));
  }
  sync_block();
  float const cut = is_exact ? job.thresholds[query] : job.cuts[query];
  float const residual = job.greatest_residual;
  std::uint32_t const n_kept = compact(candidates, n, scratch, [=](std::uint64_t candidate) {
    float const score = candidate_score(candidate);
    return (is_exact ? score : reach_of_lower(score, residual, bound.per_residual)) >= cut;
  });
  if (threadIdx.x == 0) {
    job.counts[query] = n_kept;
    if (n_kept < depth) job.pivots[query] = 0;  // the floor left fewer than asked for
  }
}

// The depth-th best canonical score so far is a threshold without an error bound.
__global__ void __launch_bounds__(kSelectThreads) tighten(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.batch.n_queries) return;
  std::uint32_t const pivot = job.pivots[query];
  std::uint32_t const n = job.counts[query];
  // All candidates are scored, or a floor has left fewer than asked for, or some were lost.
  if (pivot == 0 || n < job.depths[query] || n > job.capacity) return;
  auto& scratch = *reinterpret_cast<Scratch*>(shared_memory());
  std::size_t const base = std::size_t{query} * job.capacity;
  std::uint32_t const best =
      select_kth<std::uint32_t>(n, job.depths[query], scratch.select, [&](std::uint32_t i) {
        // Others have no score yet.
        bool const is_best = static_cast<std::uint32_t>(job.candidates[base + i] >> 32) >= pivot;
        return Entry<std::uint32_t>{is_best ? job.score_keys[base + i] : 0, is_best};
      });
  if (threadIdx.x == 0) raise_threshold(job, query, score_of_key(best));
}

namespace {

__device__ bool comes_before(RankedRow const& a, RankedRow const& b) {
  return a.score_key != b.score_key ? a.score_key > b.score_key : a.seq_key > b.seq_key;
}

// Bitonic, n a power of 2 (Batcher, AFIPS 1968).
__device__ void sort_rows(RankedRow* rows, std::uint32_t n) {
  for (std::uint32_t size = 2; size <= n; size *= 2) {
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      sync_block();
      for (std::uint32_t i = threadIdx.x; i < n / 2; i += kSelectThreads) {
        std::uint32_t const low = i / stride * 2 * stride + i % stride;
        std::uint32_t const high = low + stride;
        bool const rising = (low & size) == 0;
        RankedRow const a = rows[low];
        RankedRow const b = rows[high];
        if (comes_before(b, a) == rising) {
          rows[low] = b;
          rows[high] = a;
        }
      }
    }
  }
  sync_block();
}

}  // namespace

__global__ void __launch_bounds__(kSelectThreads, 4) finish(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.batch.n_queries) return;
  auto& scratch = *reinterpret_cast<Scratch*>(shared_memory());
  auto* const rows = reinterpret_cast<RankedRow*>(shared_memory() + kScratchBytes);
  std::size_t const base = std::size_t{query} * job.capacity;
  std::uint32_t const n = n_candidates(job, query);
  std::uint32_t const depth = job.depths[query];
  std::uint32_t const floor_key = score_key(job.floors[query]);
  bool const is_strict = job.strict[query] != 0;
  auto const key_of = [&](std::uint32_t i) {
    return job.is_exact != 0 ? static_cast<std::uint32_t>(job.candidates[base + i] >> 32)
                             : job.score_keys[base + i];
  };
  auto const passes = [&](std::uint32_t key) {
    return key != 0 && (is_strict ? key > floor_key : key >= floor_key);
  };
  auto const passing = [&](auto&& holds) {
    return [&, holds](std::uint32_t i) {
      std::uint32_t const key = key_of(i);
      return Entry<std::uint32_t>{key, passes(key) && holds(key)};
    };
  };
  auto const slot_of = [&](std::uint32_t i) { return candidate_slot(job.candidates[base + i]); };
  auto const seq_of = [&](std::uint32_t i) {
    std::uint32_t const slot = slot_of(i);
    DenseSegment const& segment = segment_of_tile(job, slot / kTileRows);
    return seq_key(segment.seqs[slot - segment.first_tile * kTileRows]);
  };
  std::uint32_t least_score = 0;  // rows of a higher score are in,
  std::uint64_t least_seq = 0;    // rows of this score from this seq key on too
  auto const count = [&](auto&& holds) {
    return count_entries<std::uint32_t>(n, scratch.total, passing(holds));
  };
  auto const any = [](std::uint32_t) { return true; };
  std::uint32_t const n_passing = count(any);
  if (n_passing > depth && depth > 0) {
    least_score = select_kth<std::uint32_t>(n, depth, scratch.select, passing(any));
    std::uint32_t const n_above = count([&](std::uint32_t key) { return key > least_score; });
    std::uint32_t const n_equal = count([&](std::uint32_t key) { return key == least_score; });
    if (n_above + n_equal > depth) {
      least_seq =
          select_kth<std::uint64_t>(n, depth - n_above, scratch.select, [&](std::uint32_t i) {
            bool const is_equal = key_of(i) == least_score;
            return Entry<std::uint64_t>{is_equal ? seq_of(i) : 0, is_equal};
          });
    }
  }
  std::uint32_t const n_results = n_passing < depth ? n_passing : depth;
  // Where fewer than wanted reach a guess, others may be among the best. What was found proves a
  // threshold for another pass.
  float const guess = job.guesses[query];
  std::uint32_t const guess_key = score_key(guess);
  bool const is_guessed = guess > job.floors[query];
  bool const is_too_high =
      is_guessed && count([&](std::uint32_t key) { return key >= guess_key; }) < depth;
  if (threadIdx.x == 0 && (is_too_high || job.counts[query] > job.capacity))
    job.overflows[query] = 1;
  std::uint32_t n_sorted = job.depth <= kMostSorted && n_results > 0 ? 1 : 0;
  while (n_sorted > 0 && n_sorted < n_results) n_sorted *= 2;
  for (std::uint32_t i = threadIdx.x; i < n_sorted; i += kSelectThreads) rows[i] = {0, 0, 0};
  if (threadIdx.x == 0) scratch.n_kept = 0;
  sync_block();
  std::size_t const to = result_place(job, query) * job.result_stride;
  for (std::uint32_t i = threadIdx.x; i < n && n_results > 0; i += kSelectThreads) {
    std::uint32_t const key = key_of(i);
    if (!passes(key) || key < least_score) continue;
    if (key == least_score && least_seq != 0 && seq_of(i) < least_seq) continue;
    std::uint32_t const place = atomicAdd(&scratch.n_kept, 1u);
    if (n_sorted > 0) {
      rows[place] = {seq_of(i), key, slot_of(i)};
    } else {
      job.result_scores[to + place] = score_of_key(key);
      job.result_seqs[to + place] = seq_of_key(seq_of(i));
      job.result_slots[to + place] = slot_of(i);
    }
  }
  sync_block();
  if (n_sorted > 0) {
    sort_rows(rows, n_sorted);
    for (std::uint32_t i = threadIdx.x; i < n_results; i += kSelectThreads) {
      job.result_scores[to + i] = score_of_key(rows[i].score_key);
      job.result_seqs[to + i] = seq_of_key(rows[i].seq_key);
      job.result_slots[to + i] = rows[i].slot;
    }
  }
  if (threadIdx.x == 0) job.result_counts[query] = n_results;
}

}  // namespace hyrecall::cuda
