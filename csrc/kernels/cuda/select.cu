// What:   from scores to thresholds and results: a guess by a sample, the threshold of a text after
//         its first tiles, and at the end the best rows by (score desc, seq asc), with canonical
//         scores.
// In/Out: DenseJob: samples, candidates, counts; guesses, thresholds, cuts, results.
// Launch: guess_thresholds, cut_texts: a CTA of kSelectThreads a query. pick_best: grid (CTAs a
//         query, queries) of kSelectThreads, with the shared memory that PickShape says.
// Cost:   some passes over the candidates of a query, from L2: some thousands (dense.md); then a
//         row's bytes, read at random, for some hundreds.
// Oracle: a full sort (tests/emulator, tests/laws/test_l8_exact.py).
#include <algorithm>

#include "kernels/cuda/max_sim.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/sort_block.cuh"
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
};
// Entries of a query that may be among its best, in shared memory.
constexpr std::uint32_t kListRoom = 3'072;
constexpr std::uint32_t kMostListed = 16'384;
constexpr std::size_t kScratchBytes = (sizeof(Scratch) + 15) / 16 * 16;

// Keeps the candidates that keep() holds, in place and in any order; gives their number.
template <typename Keep>
__device__ std::uint32_t compact(std::uint64_t* candidates, std::uint32_t n, Scratch& scratch,
                                 Keep&& keep) {
  if (threadIdx.x == 0) scratch.n_kept = 0;
  for (std::uint32_t begin = 0; begin < n; begin += kSelectThreads) {
    std::uint32_t const i = begin + threadIdx.x;
    std::uint64_t const candidate = i < n ? candidates[i] : 0;
    sync_block();  // all have read their candidate, behind those that are kept
    if (i < n && keep(candidate)) candidates[atomicAdd(&scratch.n_kept, 1u)] = candidate;
  }
  sync_block();
  return scratch.n_kept;
}

}  // namespace

std::size_t select_bytes() {
  return kScratchBytes;
}

__global__ void __launch_bounds__(kSelectThreads) guess_thresholds(DenseJob const* job_at) {
  begin_behind();
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
  begin_behind();
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

// A query's entries: what the first pass has left of it. Those that are wanted get canonical
// scores.
template <RowKind kKind>
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
    entries_ = candidates_of(job_, query_);
    n_entries_ = n_;
    if (job_.is_exact != 0) return true;
    bound_ = job_.bounds[query_];
    cut_ = job_.cuts[query_];
    auto const entry = [this](std::uint32_t i) {
      std::uint32_t const key = key_at(i);
      return Entry<std::uint32_t>{key, key != 0};
    };
    std::uint32_t const n_there = count_entries<std::uint32_t>(n_, scratch().total, entry);
    if (n_there >= depth_ && depth_ > 0) {
      pivot_ = select_kth<std::uint32_t>(n_, depth_, scratch().select, entry);
      // `depth` rows have a lower score of at least the pivot's, so a canonical one of at least
      // that less the constant.
      raise(float_down(score_of_key(pivot_) - double{bound_.constant}));
    }
    if (is_shared()) {
      entries_ = job_.shares + std::size_t{query_} * job_.most_entries;
    } else if (!collect()) {
      // Thousands are as good as the best: those of a query without candidates are found again.
      n_entries_ = is_whole_ ? 0 : n_;
      is_lost_ = is_whole_;
    }
    score_entries();
    return !is_shared() || is_last();
  }

  // Of what has a score, the best rows.
  __device__ void finish();

 private:
  __device__ static Scratch& scratch() { return *reinterpret_cast<Scratch*>(shared_memory()); }
  __device__ static std::uint64_t* list() {
    return reinterpret_cast<std::uint64_t*>(shared_memory() + kScratchBytes);
  }
  // Of the first pass.
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
  // By the residual of any row, then by the row's own.
  __device__ bool may_be_best(std::uint32_t lower_key, std::uint32_t slot) const {
    float residual = 0.0f;
    if (kKind != RowKind::kSparse && job_.plane == FirstPassPlane::kInt8) {
      DenseSegment const& segment = segment_of_tile(job_, slot / kTileRows);
      residual = segment.residuals[slot - segment.first_tile * kTileRows];
    }
    return reach_of_lower(score_of_key(lower_key), residual, bound_.per_residual) >= cut_;
  }
  __device__ bool any_may_be_best(std::uint32_t lower_key) const {
    return reach_of_lower(score_of_key(lower_key), job_.greatest_residual, bound_.per_residual) >=
           cut_;
  }

  // The entries that may be among the best into shared memory: those from the pivot on from its
  // front, the others from its end. Whether there was room.
  __device__ bool collect() {
    if (threadIdx.x == 0) scratch().n_best = scratch().n_others = 0;
    sync_block();
#pragma unroll 1
    for (std::uint32_t i = threadIdx.x; i < n_; i += kSelectThreads) {
      std::uint32_t const key = key_at(i);
      if (key == 0 || !any_may_be_best(key)) continue;
      std::uint32_t const slot = slot_at(i);
      if (!may_be_best(key, slot)) continue;
      bool const is_best = key >= pivot_;
      std::uint32_t const place = atomicAdd(is_best ? &scratch().n_best : &scratch().n_others, 1u);
      if (place >= list_room_) continue;
      list()[is_best ? place : list_room_ - 1 - place] = std::uint64_t{key} << 32 | slot;
    }
    sync_block();
    std::uint32_t const n_listed = scratch().n_best + scratch().n_others;
    if (n_listed > list_room_) return false;
    n_best_ = scratch().n_best;
    n_entries_ = n_listed;
    entries_ = list();
    return true;
  }
  // An entry of the list, or of memory, where they stand as they are.
  __device__ std::uint64_t& entry_at(std::uint32_t i) const {
    return entries_[i < n_best_ ? i : list_room_ - 1 - (i - n_best_)];
  }

  // CTAs share a query: each has a share of the entries, with places of their own for scores, since
  // others still read the keys.
  __device__ static bool is_shared() { return gridDim.x > 1; }
  __device__ bool has_list() const { return entries_ == list(); }
  // Whether the others are done.
  __device__ bool is_last() {
    publish_memory();
    sync_block();
    if (threadIdx.x == 0) scratch().ticket = atomicAdd(&job_.tickets[query_], 1u);
    sync_block();
    if (scratch().ticket + 1 != gridDim.x) return false;
    publish_memory();  // the ticket before what the others have written
    return true;
  }

  // Of a list, first the best by their lower scores. The depth-th best canonical score of these is
  // a threshold without an error bound for the others.
  __device__ void score_entries() {
    std::uint32_t begin = 0;
    std::uint32_t end = has_list() ? n_best_ : n_entries_;
#pragma unroll 1
    while (true) {
      score_some(begin, end);
      sync_block();
      if (end == n_entries_) return;
      begin = end;
      end = n_entries_;
      if (n_best_ < depth_ || depth_ == 0) continue;
      raise(score_of_key(select_kth<std::uint32_t, kSelectThreads, 1>(
          n_best_, depth_, scratch().select, [this](std::uint32_t i) {
            return Entry<std::uint32_t>{static_cast<std::uint32_t>(list()[i] >> 32), true};
          })));
    }
  }

  // Lanes look at entries, the warp scores those that are wanted; few are spread over all warps.
  __device__ void score_some(std::uint32_t begin, std::uint32_t end) {
    constexpr std::uint32_t kWarps = kSelectThreads / kLanes;
    std::uint32_t const n_warps = gridDim.x * kWarps;
    std::uint32_t const even = (end - begin + n_warps - 1) / n_warps;
    std::uint32_t const share = even < kLanes ? even : kLanes;
    bool const are_wanted = has_list() && begin == 0;  // the best of a list
#pragma unroll 1
    for (std::uint32_t first = begin + (blockIdx.x * kWarps + threadIdx.x / kLanes) * share;
         first < end; first += n_warps * share) {
      std::uint32_t const i = first + lane_id();
      bool const is_there = lane_id() < share && i < end;
      std::uint64_t own = 0;
      if (is_there && is_shared()) {
        std::uint32_t const key = key_at(i);
        if (key != 0 && any_may_be_best(key)) own = std::uint64_t{key} << 32 | slot_at(i);
      } else if (is_there) {
        own = entry_at(i);
      }
      std::uint32_t const slot = candidate_slot(own);
      auto const key = static_cast<std::uint32_t>(own >> 32);
      bool const is_wanted = key != 0 && (are_wanted || may_be_best(key, slot));
      if (is_there && !is_wanted) entry_at(i) = 0;
#pragma unroll 1
      for (std::uint32_t left = ballot(is_wanted); left != 0; left &= left - 1) {
        std::uint32_t const from = lowest_bit(left);
        std::uint32_t const scored = shuffle(slot, from);
        std::uint64_t made = 0;
        if constexpr (kKind == RowKind::kSparse) {
          made = shuffle(key, from);
        } else if constexpr (kKind == RowKind::kMany) {
          made = max_sim_key_by_warp(job_, query_, scored);
        } else {
          made = score_key_by_warp(job_, query_, scored);
        }
        if (lane_id() == 0) entry_at(first + from) = made << 32 | scored;
      }
    }
  }

  DenseJob const& job_;
  std::uint32_t const query_;
  std::uint32_t const depth_;
  std::uint32_t const list_room_;
  bool is_whole_;
  bool is_lost_ = false;
  std::uint32_t n_;  // of the first pass
  QueryBound bound_{0.0f, 0.0f};
  float threshold_;
  float cut_ = 0.0f;
  std::uint32_t pivot_ = 0;
  std::uint32_t n_best_ = kNone32;  // in the front of the list; kNone32: entries stand as they are
  std::uint64_t* entries_ = nullptr;  // with canonical scores at the end; key 0: not wanted
  std::uint32_t n_entries_ = 0;
};

template <RowKind kKind>
__device__ void Picker<kKind>::finish() {
  auto* const rows = reinterpret_cast<RankedRow*>(list() + list_room_);
  std::uint32_t const n = n_entries_;
  std::uint32_t const floor_key = score_key(job_.floors[query_]);
  bool const is_strict = job_.strict[query_] != 0;
  // Others may have written it.
  auto const key_of = [&](std::uint32_t i) {
    return static_cast<std::uint32_t>(load_published(&entry_at(i)) >> 32);
  };
  auto const passes = [&](std::uint32_t key) {
    return key != 0 && (is_strict ? key > floor_key : key >= floor_key);
  };
  auto const seq_of = [&](std::uint32_t i) {
    std::uint32_t const slot = candidate_slot(load_published(&entry_at(i)));
    DenseSegment const& segment = segment_of_tile(job_, slot / kTileRows);
    return seq_key(segment.seqs[slot - segment.first_tile * kTileRows]);
  };
  std::uint32_t least_score = 0;  // rows of a higher score are in,
  std::uint64_t least_seq = 0;    // rows of this score from this seq key on too
  auto const count_from = [&](std::uint32_t least) {
    return count_entries<std::uint32_t>(n, scratch().total, [&](std::uint32_t i) {
      std::uint32_t const key = key_of(i);
      return Entry<std::uint32_t>{key, passes(key) && key >= least};
    });
  };
  // Where fewer than wanted reach a guess, others may be among the best. What was found proves a
  // threshold for another pass.
  float const guess = job_.guesses[query_];
  bool const is_guessed = guess > job_.floors[query_];
  std::uint32_t counts[4] =
      {};  // that pass; that reach the guess, the depth-th score, and above it
  std::uint32_t least = 1;
#pragma unroll 1
  for (int what = 0; what < 4; ++what) {
    if (what == 1) least = score_key(guess);
    if (what == 2) {
      if (counts[0] <= depth_ || depth_ == 0) break;
      least_score = select_kth<std::uint32_t>(n, depth_, scratch().select, [&](std::uint32_t i) {
        std::uint32_t const key = key_of(i);
        return Entry<std::uint32_t>{key, passes(key)};
      });
      least = least_score;
    }
    if (what == 3) least = least_score + 1;
    std::uint32_t const counted = count_from(least);
    counts[0] = what == 0 ? counted : counts[0];
    counts[1] = what == 1 ? counted : counts[1];
    counts[2] = what == 2 ? counted : counts[2];
    counts[3] = what == 3 ? counted : counts[3];
  }
  if (least_score > 0 && counts[2] > depth_) {
    least_seq = select_kth<std::uint64_t, kSelectThreads, 1>(
        n, depth_ - counts[3], scratch().select, [&](std::uint32_t i) {
          bool const is_equal = key_of(i) == least_score;
          return Entry<std::uint64_t>{is_equal ? seq_of(i) : 0, is_equal};
        });
  }
  std::uint32_t const n_results = counts[0] < depth_ ? counts[0] : depth_;
  bool const is_too_high = is_guessed && counts[1] < depth_;
  is_lost_ = is_lost_ || (!is_whole_ && job_.counts[query_] > job_.capacity);
  if (threadIdx.x == 0) {
    float const found = score_of_key(least_score);
    bool const is_proof = job_.is_exact != 0 && least_score > 0 && found > threshold_;
    job_.thresholds[query_] = is_proof ? found : threshold_;
    if (is_too_high || is_lost_) job_.overflows[query_] = 1;
    job_.result_counts[result_place(job_, query_)] = n_results;
    scratch().n_kept = 0;
  }
  bool const is_sorted = job_.depth <= kMostSorted && n_results > 0;
  std::uint32_t const n_sorted = is_sorted ? power_of_two_from(n_results) : 0;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < n_sorted; i += kSelectThreads) rows[i] = {0, 0, 0};
  sync_block();
  std::size_t const to = result_place(job_, query_) * job_.result_stride;
  auto const write = [&](std::uint32_t place, RankedRow const& row) {
    job_.result_scores[to + place] = score_of_key(row.score_key);
    job_.result_seqs[to + place] = seq_of_key(row.seq_key);
    job_.result_slots[to + place] = row.slot;
  };
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < n && n_results > 0; i += kSelectThreads) {
    std::uint64_t const own = load_published(&entry_at(i));
    auto const key = static_cast<std::uint32_t>(own >> 32);
    if (!passes(key) || key < least_score) continue;
    RankedRow const row{seq_of(i), key, candidate_slot(own)};
    if (key == least_score && row.seq_key < least_seq) continue;
    std::uint32_t const place = atomicAdd(&scratch().n_kept, 1u);
    if (n_sorted > 0) {
      rows[place] = row;
    } else {
      write(place, row);
    }
  }
  sync_block();
  if (n_sorted == 0) return;
  sort_block<kSelectThreads>(
      n_sorted, [=](std::uint32_t i, std::uint32_t j) { return comes_before(rows[i], rows[j]); },
      [=](std::uint32_t i, std::uint32_t j) { exchange_at(rows, i, j); });
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < n_results; i += kSelectThreads) write(i, rows[i]);
}

}  // namespace

template <RowKind kKind>
__global__ void __launch_bounds__(kSelectThreads, kKind == RowKind::kMany ? 2 : 3)
    pick_best(DenseJob const* job_at, std::uint32_t list_room) {
  begin_behind();
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
  Picker<kKind> picker(job, query, list_room);
  if (picker.score()) picker.finish();
}

template __global__ void pick_best<RowKind::kOne>(DenseJob const* job_at, std::uint32_t list_room);
template __global__ void pick_best<RowKind::kMany>(DenseJob const* job_at, std::uint32_t list_room);
template __global__ void pick_best<RowKind::kSparse>(DenseJob const* job_at,
                                                     std::uint32_t list_room);

PickShape PickShape::of(std::uint32_t n_queries, std::uint32_t sorted_rows, bool is_lexical,
                        unsigned n_multiprocessors, std::size_t most_shared_bytes) {
  PickShape out{};
  out.n_ctas = is_lexical ? 1 : std::clamp(4 * n_multiprocessors / n_queries, 1u, 64u);
  std::size_t const others = kScratchBytes + sorted_rows * sizeof(RankedRow);
  if (out.n_ctas == 1 && !is_lexical) {
    // Several CTAs share a multiprocessor, unless many rows are sorted.
    std::size_t const most = (most_shared_bytes - others) / sizeof(std::uint64_t);
    out.list_room = sorted_rows <= kFewRows
                        ? kListRoom
                        : static_cast<std::uint32_t>(std::min<std::size_t>(most, kMostListed));
  }
  out.shared_bytes = others + out.list_room * sizeof(std::uint64_t);
  return out;
}

PickShape PickShape::shared(PickShape of, std::uint32_t sorted_rows) {
  if (of.n_ctas > 1) return of;
  return {2, 0, kScratchBytes + sorted_rows * sizeof(RankedRow)};
}

}  // namespace hyrecall::cuda
