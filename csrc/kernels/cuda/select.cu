// What:   from scores to thresholds and results: a guess by a sample, the threshold of a text after
//         its first tiles, and at the end the best rows by (score desc, seq asc), with canonical
//         scores.
// In/Out: DenseJob: samples, candidates, counts; guesses, thresholds, cuts, results.
// Launch: guess_thresholds, cut_texts: a CTA of kSelectThreads a query. pick_best: grid (CTAs a
//         query, queries), of the threads and shared memory that PickShape says.
// Cost:   some passes over the candidates of a query, from L2: some thousands (dense.md); then a
//         row's bytes, read at random, for some hundreds.
// Oracle: a full sort (tests/emulator, tests/laws/test_l8_exact.py).
#include <algorithm>

#include "kernels/cuda/select.cuh"
#include "kernels/cuda/status.cuh"
#include "kernels/cuda/warp_math.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {
namespace {

struct Scratch {
  SelectScratch select;
  std::uint32_t total;
  std::uint32_t n_kept;
  std::uint32_t n_best;
  std::uint32_t n_others;
  std::uint32_t ticket;
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

__global__ void __launch_bounds__(kSelectThreads) guess_thresholds(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.batch.n_queries) return;
  std::uint32_t const rank = job.batch.guess_ranks[query];
  if (rank == 0) return;
  auto& scratch = *reinterpret_cast<Scratch*>(shared_memory());
  std::uint32_t const n =
      job.batch.groups[job.batch.query_groups[query]].n_first * (kTileRows / kSampleRows);
  std::uint32_t const* const samples = job.samples + std::size_t{query} * job.most_samples;
  auto const entry = [=](std::uint32_t i) {
    return Entry<std::uint32_t>{samples[i], samples[i] != 0};
  };
  if (count_entries<std::uint32_t>(n, scratch.total, entry) < rank) return;
  float const best = score_of_key(select_kth<std::uint32_t>(n, rank, scratch.select, entry));
  if (threadIdx.x != 0) return;
  // What quantising adds to a score is a sum of `dim` small errors: four times their deviation.
  QueryBound const bound = job.bounds[query];
  double const residual = static_cast<double>(job.greatest_residual) + bound.per_residual - 1.0;
  float const guess = float_down(best - 4.0 * residual / sqrt(static_cast<double>(job.dim)));
  job.guesses[query] = guess;
  float const cut = cut_for(guess, bound);
  if (cut > job.cuts[query]) job.cuts[query] = cut;
}

// After a text's first tiles: its depth-th best score is a threshold, and what lies below goes.
__global__ void __launch_bounds__(kSelectThreads) cut_texts(DenseJob const* job_at) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.batch.n_queries || job.batch.n_rest == 0) return;
  auto& scratch = *reinterpret_cast<Scratch*>(shared_memory());
  std::uint32_t const n_found = job.counts[query];
  std::uint32_t const n = n_candidates(job, query);
  std::uint32_t const depth = job.depths[query];
  sync_block();  // all have read counts, which thread 0 changes below
  if (threadIdx.x == 0 && n_found > job.capacity) {
    job.overflows[query] = 1;
    job.counts[query] = n;
  }
  if (n < depth || depth == 0) return;
  std::uint64_t* const candidates = candidates_of(job, query);
  std::uint32_t const pivot =
      select_kth<std::uint32_t>(n, depth, scratch.select, [=](std::uint32_t i) {
        return Entry<std::uint32_t>{static_cast<std::uint32_t>(candidates[i] >> 32), true};
      });
  float const best = score_of_key(pivot);
  float const was = job.thresholds[query];
  float const threshold = best > was ? best : was;
  std::uint32_t const n_kept = compact(candidates, n, scratch, [=](std::uint64_t candidate) {
    return candidate_score(candidate) >= threshold;
  });
  if (threadIdx.x == 0) {
    job.thresholds[query] = threshold;
    job.counts[query] = n_kept;
  }
}

namespace {

__device__ bool comes_before(RankedRow const& a, RankedRow const& b) {
  return a.score_key != b.score_key ? a.score_key > b.score_key : a.seq_key > b.seq_key;
}

// Bitonic, n a power of 2 (Batcher, AFIPS 1968).
template <unsigned kThreads>
__device__ void sort_rows(RankedRow* rows, std::uint32_t n) {
  for (std::uint32_t size = 2; size <= n; size *= 2) {
    for (std::uint32_t stride = size / 2; stride > 0; stride /= 2) {
      sync_block();
      for (std::uint32_t i = threadIdx.x; i < n / 2; i += kThreads) {
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

// A query's entries: what the first pass has left of it. Those that are wanted get canonical
// scores.
template <unsigned kThreads>
class Picker {
 public:
  __device__ Picker(DenseJob const& job, std::uint32_t query, std::uint32_t list_room)
      : job_(job),
        query_(query),
        depth_(job.depths[query]),
        list_room_(list_room),
        threshold_(job.thresholds[query]) {
    std::uint32_t const group = job.batch.query_groups[query];
    is_whole_ = job.is_exact == 0 && group != kNone32 && job.batch.groups[group].stride == 1;
    n_ = is_whole_ ? job.batch.groups[group].n_first * kTileRows : n_candidates(job, query);
  }

  // Canonical scores for all entries that may be among the best. Whether this CTA ends the query.
  __device__ bool score() {
    if (job_.is_exact != 0) return true;
    bound_ = job_.bounds[query_];
    cut_ = job_.cuts[query_];
    auto const entry = [this](std::uint32_t i) {
      std::uint32_t const key = key_at(i);
      return Entry<std::uint32_t>{key, key != 0};
    };
    std::uint32_t const n_there =
        count_entries<std::uint32_t, kThreads>(n_, scratch().total, entry);
    if (n_there >= depth_ && depth_ > 0) {
      pivot_ = select_kth<std::uint32_t, kThreads>(n_, depth_, scratch().select, entry);
      // `depth` rows have a lower score of at least the pivot's, so a canonical one of at least
      // that less the constant.
      raise(float_down(score_of_key(pivot_) - double{bound_.constant}));
    }
    if (gridDim.x == 1 && collect()) {
      score_list();
      return true;
    }
    return score_share();
  }

  // Of what has a score, the best rows.
  __device__ void finish();

 private:
  __device__ static Scratch& scratch() { return *reinterpret_cast<Scratch*>(shared_memory()); }
  __device__ static std::uint64_t* list() {
    return reinterpret_cast<std::uint64_t*>(shared_memory() + kScratchBytes);
  }
  __device__ std::uint32_t key_at(std::uint32_t i) const {
    return is_whole_ ? scores_of(job_, query_)[i]
                     : static_cast<std::uint32_t>(candidates_of(job_, query_)[i] >> 32);
  }
  __device__ std::uint32_t slot_at(std::uint32_t i) const {
    if (!is_whole_) return candidate_slot(candidates_of(job_, query_)[i]);
    return slot_of_place(job_.batch, job_.batch.groups[job_.batch.query_groups[query_]], i);
  }
  // No row of a lower score is among the best.
  __device__ void raise(float threshold) {
    if (!(threshold > threshold_)) return;
    threshold_ = threshold;
    float const cut = cut_for(threshold, bound_);
    cut_ = cut > cut_ ? cut : cut_;  // that of a guess may be higher
  }
  __device__ bool may_be_best(std::uint32_t lower_key, float residual) const {
    return reach_of_lower(score_of_key(lower_key), residual, bound_.per_residual) >= cut_;
  }
  __device__ float residual_of(std::uint32_t slot) const {
    if (job_.plane != FirstPassPlane::kInt8) return 0.0f;
    DenseSegment const& segment = segment_of_tile(job_, slot / kTileRows);
    return segment.residuals[slot - segment.first_tile * kTileRows];
  }

  // The entries that may be among the best into shared memory: those from the pivot on from its
  // front, the others from its end. Whether there was room.
  __device__ bool collect() {
    if (threadIdx.x == 0) scratch().n_best = scratch().n_others = 0;
    sync_block();
    for (std::uint32_t i = threadIdx.x; i < n_; i += kThreads) {
      std::uint32_t const key = key_at(i);
      if (key == 0 || !may_be_best(key, job_.greatest_residual)) continue;
      std::uint32_t const slot = slot_at(i);
      if (!may_be_best(key, residual_of(slot))) continue;
      bool const is_best = key >= pivot_;
      std::uint32_t const place = atomicAdd(is_best ? &scratch().n_best : &scratch().n_others, 1u);
      if (place >= list_room_) continue;
      list()[is_best ? place : list_room_ - 1 - place] = std::uint64_t{key} << 32 | slot;
    }
    sync_block();
    n_best_ = scratch().n_best;
    n_listed_ = n_best_ + scratch().n_others;
    if (n_listed_ <= list_room_) return true;
    n_listed_ = kNone32;
    return false;
  }
  __device__ std::uint64_t& listed(std::uint32_t i) const {
    return list()[i < n_best_ ? i : list_room_ - 1 - (i - n_best_)];
  }

  // The depth-th best canonical score of the first is a threshold without an error bound for the
  // others.
  __device__ void score_list() {
    score_some(0, n_best_, [](std::uint64_t) { return true; });
    sync_block();
    if (n_best_ >= depth_ && depth_ > 0 && n_best_ < n_listed_) {
      raise(score_of_key(select_kth<std::uint32_t, kThreads>(
          n_best_, depth_, scratch().select, [this](std::uint32_t i) {
            return Entry<std::uint32_t>{static_cast<std::uint32_t>(list()[i] >> 32), true};
          })));
    }
    score_some(n_best_, n_listed_, [this](std::uint64_t one) {
      return may_be_best(static_cast<std::uint32_t>(one >> 32), residual_of(candidate_slot(one)));
    });
    sync_block();
  }
  template <typename Wants>
  __device__ void score_some(std::uint32_t begin, std::uint32_t end, Wants&& wants) {
    for_each_by_warp(
        begin, end, 0, 1,
        [&](std::uint32_t i, bool is_there) {
          std::uint64_t const own = is_there ? listed(i) : 0;
          bool const is_wanted = is_there && wants(own);
          if (is_there && !is_wanted) listed(i) = candidate_slot(own);
          return Wanted{is_wanted, candidate_slot(own)};
        },
        [&](std::uint32_t i, std::uint32_t slot, std::uint32_t key) {
          listed(i) = std::uint64_t{key} << 32 | slot;
        });
  }

  // A CTA's share of all entries; where it is not the only one, scores have places of their own,
  // since others still read the keys. The last to be done goes on.
  __device__ bool score_share() {
    bool const is_alone = gridDim.x == 1;
    auto const set = [&](std::uint32_t i, std::uint32_t slot, std::uint32_t key) {
      if (!is_alone) {
        job_.score_keys[std::size_t{query_} * job_.room * 2 + i] = key;
      } else if (is_whole_) {
        scores_of(job_, query_)[i] = key;
      } else {
        candidates_of(job_, query_)[i] = std::uint64_t{key} << 32 | slot;
      }
    };
    for_each_by_warp(
        0, n_, blockIdx.x, gridDim.x,
        [&](std::uint32_t i, bool is_there) {
          std::uint32_t const key = is_there ? key_at(i) : 0;
          bool is_wanted = key != 0 && may_be_best(key, job_.greatest_residual);
          std::uint32_t const slot = is_wanted || (is_there && !is_whole_) ? slot_at(i) : 0;
          is_wanted = is_wanted && may_be_best(key, residual_of(slot));
          if (is_there && !is_wanted) set(i, slot, 0);
          return Wanted{is_wanted, slot};
        },
        set);
    has_shares_ = !is_alone;
    if (is_alone) {
      sync_block();
      return true;
    }
    publish_memory();
    sync_block();
    if (threadIdx.x == 0) scratch().ticket = atomicAdd(&job_.tickets[query_], 1u);
    sync_block();
    if (scratch().ticket + 1 != gridDim.x) return false;
    publish_memory();  // the ticket before what the others have written
    return true;
  }

  struct Wanted {
    bool is_wanted;
    std::uint32_t slot;
  };
  // Lanes look at entries [begin, end), the warp scores those that are wanted; few are spread over
  // all warps of the CTAs that share them.
  template <typename Look, typename Set>
  __device__ void for_each_by_warp(std::uint32_t begin, std::uint32_t end, std::uint32_t cta,
                                   std::uint32_t n_ctas, Look&& look, Set&& set) {
    std::uint32_t const n_warps = n_ctas * (kThreads / kLanes);
    std::uint32_t const warp = cta * (kThreads / kLanes) + threadIdx.x / kLanes;
    std::uint32_t const even = (end - begin + n_warps - 1) / n_warps;
    std::uint32_t const share = even < kLanes ? even : kLanes;
    for (std::uint32_t first = begin + warp * share; first < end; first += n_warps * share) {
      std::uint32_t const i = first + lane_id();
      Wanted const own = look(i, lane_id() < share && i < end);
      for (std::uint32_t left = ballot(own.is_wanted); left != 0; left &= left - 1) {
        std::uint32_t const from = lowest_bit(left);
        std::uint32_t const slot = shuffle(own.slot, from);
        std::uint32_t const key = score_key_by_warp(job_, query_, slot);
        if (lane_id() == 0) set(first + from, slot, key);
      }
    }
  }

  DenseJob const& job_;
  std::uint32_t const query_;
  std::uint32_t const depth_;
  std::uint32_t const list_room_;
  bool is_whole_ = false;
  std::uint32_t n_ = 0;
  QueryBound bound_{0.0f, 0.0f};
  float threshold_;
  float cut_ = 0.0f;
  std::uint32_t pivot_ = 0;
  std::uint32_t n_best_ = 0;
  std::uint32_t n_listed_ = kNone32;  // kNone32: there is no list
  bool has_shares_ = false;
};

template <unsigned kThreads>
__device__ void Picker<kThreads>::finish() {
  auto* const rows = reinterpret_cast<RankedRow*>(list() + list_room_);
  bool const has_list = n_listed_ != kNone32;
  std::uint32_t const n = has_list ? n_listed_ : n_;
  std::uint32_t const* const shares = job_.score_keys + std::size_t{query_} * job_.room * 2;
  std::uint32_t const floor_key = score_key(job_.floors[query_]);
  bool const is_strict = job_.strict[query_] != 0;
  auto const key_of = [&](std::uint32_t i) {
    if (has_list) return static_cast<std::uint32_t>(listed(i) >> 32);
    return has_shares_ ? load_published(shares + i) : key_at(i);
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
  auto const slot_of = [&](std::uint32_t i) {
    return has_list ? candidate_slot(listed(i)) : slot_at(i);
  };
  auto const seq_of = [&](std::uint32_t i) {
    std::uint32_t const slot = slot_of(i);
    DenseSegment const& segment = segment_of_tile(job_, slot / kTileRows);
    return seq_key(segment.seqs[slot - segment.first_tile * kTileRows]);
  };
  std::uint32_t least_score = 0;  // rows of a higher score are in,
  std::uint64_t least_seq = 0;    // rows of this score from this seq key on too
  auto const count = [&](auto&& holds) {
    return count_entries<std::uint32_t, kThreads>(n, scratch().total, passing(holds));
  };
  auto const any = [](std::uint32_t) { return true; };
  std::uint32_t const n_passing = count(any);
  if (n_passing > depth_ && depth_ > 0) {
    least_score = select_kth<std::uint32_t, kThreads>(n, depth_, scratch().select, passing(any));
    std::uint32_t const n_above = count([&](std::uint32_t key) { return key > least_score; });
    std::uint32_t const n_equal = count([&](std::uint32_t key) { return key == least_score; });
    if (n_above + n_equal > depth_) {
      least_seq = select_kth<std::uint64_t, kThreads>(
          n, depth_ - n_above, scratch().select, [&](std::uint32_t i) {
            bool const is_equal = key_of(i) == least_score;
            return Entry<std::uint64_t>{is_equal ? seq_of(i) : 0, is_equal};
          });
    }
  }
  std::uint32_t const n_results = n_passing < depth_ ? n_passing : depth_;
  // Where fewer than wanted reach a guess, others may be among the best. What was found proves a
  // threshold for another pass.
  float const guess = job_.guesses[query_];
  std::uint32_t const guess_key = score_key(guess);
  bool const is_guessed = guess > job_.floors[query_];
  bool const is_too_high =
      is_guessed && count([&](std::uint32_t key) { return key >= guess_key; }) < depth_;
  bool const is_lost = !is_whole_ && job_.counts[query_] > job_.capacity;
  if (threadIdx.x == 0) {
    float const found = score_of_key(least_score);
    bool const is_proof = job_.is_exact != 0 && least_score > 0 && found > threshold_;
    job_.thresholds[query_] = is_proof ? found : threshold_;
    if (is_too_high || is_lost) job_.overflows[query_] = 1;
  }
  std::uint32_t n_sorted = job_.depth <= kMostSorted && n_results > 0 ? 1 : 0;
  while (n_sorted > 0 && n_sorted < n_results) n_sorted *= 2;
  for (std::uint32_t i = threadIdx.x; i < n_sorted; i += kThreads) rows[i] = {0, 0, 0};
  if (threadIdx.x == 0) scratch().n_kept = 0;
  sync_block();
  std::size_t const to = result_place(job_, query_) * job_.result_stride;
  for (std::uint32_t i = threadIdx.x; i < n && n_results > 0; i += kThreads) {
    std::uint32_t const key = key_of(i);
    if (!passes(key) || key < least_score) continue;
    if (key == least_score && least_seq != 0 && seq_of(i) < least_seq) continue;
    std::uint32_t const place = atomicAdd(&scratch().n_kept, 1u);
    if (n_sorted > 0) {
      rows[place] = {seq_of(i), key, slot_of(i)};
    } else {
      job_.result_scores[to + place] = score_of_key(key);
      job_.result_seqs[to + place] = seq_of_key(seq_of(i));
      job_.result_slots[to + place] = slot_of(i);
    }
  }
  sync_block();
  if (n_sorted > 0) {
    sort_rows<kThreads>(rows, n_sorted);
    for (std::uint32_t i = threadIdx.x; i < n_results; i += kThreads) {
      job_.result_scores[to + i] = score_of_key(rows[i].score_key);
      job_.result_seqs[to + i] = seq_of_key(rows[i].seq_key);
      job_.result_slots[to + i] = rows[i].slot;
    }
  }
  if (threadIdx.x == 0) job_.result_counts[query_] = n_results;
}

}  // namespace

template <unsigned kThreads>
__global__ void __launch_bounds__(kThreads, kThreads == PickShape::kFewThreads ? 3 : 1)
    pick_best(DenseJob const* job_at, std::uint32_t list_room) {
  DenseJob const& job = *job_at;
  std::uint32_t const query = blockIdx.y;
  if (query >= job.batch.n_queries) return;
  if (job.is_asked != 0) {
    if (threadIdx.x == 0 && blockIdx.x == 0) {
      job.result_counts[query] = n_candidates(job, query);
      job.overflows[query] = job.counts[query] > job.capacity ? 1 : 0;
    }
    return;
  }
  Picker<kThreads> picker(job, query, list_room);
  if (picker.score()) picker.finish();
}

PickShape PickShape::of(std::uint32_t n_queries, std::uint32_t sorted_rows, bool is_lexical,
                        unsigned n_multiprocessors) {
  bool const is_small = sorted_rows <= kFewRows;
  PickShape out{};
  out.kernel = is_small ? &pick_best<kFewThreads> : &pick_best<kManyThreads>;
  out.n_threads = is_small ? kFewThreads : kManyThreads;
  out.n_ctas = is_lexical ? 1 : std::clamp(4 * n_multiprocessors / n_queries, 1u, 64u);
  out.list_room = out.n_ctas > 1 || is_lexical ? 0 : is_small ? 3'072 : 8'192;
  out.shared_bytes =
      kScratchBytes + out.list_room * sizeof(std::uint64_t) + sorted_rows * sizeof(RankedRow);
  static_assert(kScratchBytes + 8'192 * sizeof(std::uint64_t) + kMostSorted * sizeof(RankedRow) <=
                kMostBytes);
  return out;
}

void PickShape::allow(unsigned most_shared_bytes) {
  for (auto* const kernel : {&pick_best<kFewThreads>, &pick_best<kManyThreads>}) {
    check(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize,
                               static_cast<int>(most_shared_bytes)));
  }
}

}  // namespace hyrecall::cuda
