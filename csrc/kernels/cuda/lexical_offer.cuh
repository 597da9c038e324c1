// From the sums of a document tile to candidates of a text.
#pragma once

#include "kernels/cuda/lexical_visit.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda::lexical {

__device__ inline bool is_visible(DenseJob const& job, TextVisit const& visit,
                                  std::uint32_t row_in_tile) {
  DenseSegment const& own = job.segments[visit.segment];
  std::uint32_t const row = visit.first_row + row_in_tile;
  if (own.live != nullptr && (own.live[row / 64] >> row % 64 & 1) == 0) return false;
  DenseGroup const group = job.batch.groups[visit.group];
  if (!mask_of_ranges(job.batch.ranges + group.range_begin, group.n_ranges,
                      visit.tile * kTilesADocTile + row_in_tile / kTileRows)
           .test(row_in_tile % kTileRows))
    return false;
  return group.filter == kNone32 ||
         row_passes(program_of(job, group.filter, visit.segment), own.attributes, row);
}

__device__ inline std::uint32_t lowest_of(std::uint64_t bits) {
  auto const low = static_cast<std::uint32_t>(bits);
  return low != 0 ? lowest_bit(low) : 32 + lowest_bit(static_cast<std::uint32_t>(bits >> 32));
}

// The i-th row that a thread looks at, in its tile.
__device__ inline std::uint32_t own_row(std::uint32_t i) {
  return 4 * (i / 4 * kTextThreads + threadIdx.x) + i % 4;
}

// The rows of this thread that match, reach the threshold and may be seen, a bit each; what else
// was summed is 0 again.
__device__ inline std::uint64_t sift(DenseJob const& job, TextVisit const& visit,
                                     std::uint32_t* words) {
  LexicalText const& text = visit.text;
  float const threshold = job.thresholds[visit.query];
  MatchStep const* const steps = job.lexical.match_steps + text.match_begin;
  std::uint64_t found = 0;
#pragma unroll 1
  for (std::uint32_t load = 0; load < kLoadsAThread; ++load) {
    std::uint32_t const row = own_row(4 * load);
    FourFloats const sums = shared_load(&shared_part().sums[row]);
    FourWords leaves{};
    if (words != nullptr) leaves = shared_load(&words[row]);
    std::uint32_t four = 0;
#pragma unroll
    for (std::uint32_t k = 0; k < 4; ++k) {
      bool const reaches = sums.values[k] >= threshold;
      bool const is_met = text.is_positive != 0 ? sums.values[k] > 0.0f : leaves.values[k] != 0;
      if (reaches && is_met) four |= 1u << k;
    }
    for (std::uint32_t left = four; left != 0; left &= left - 1) {
      std::uint32_t const k = lowest_bit(left);
      bool const matches =
          text.n_match_steps == 0 || matches_tree(steps, text.n_match_steps, words[row + k]);
      if (!matches || (visit.is_full == 0 && !is_visible(job, visit, row + k))) four &= ~(1u << k);
    }
    if (four != 0) {
      found |= std::uint64_t{four} << (4 * load);
      continue;
    }
    shared_clear(&shared_part().sums[row]);
    if (words != nullptr) shared_clear(&words[row]);
  }
  return found;
}

__device__ inline std::uint32_t count(std::uint64_t bits) {
  return popcount(static_cast<std::uint32_t>(bits)) +
         popcount(static_cast<std::uint32_t>(bits >> 32));
}

// How many rows the threads before this one found, and all of them.
struct Places {
  std::uint32_t before;
  std::uint32_t all;
};
__device__ inline Places places_of(std::uint32_t own) {
  Shared& shared = shared_part();
  std::uint32_t sum = own;
  for (unsigned by = 1; by < kWarp; by *= 2) {
    std::uint32_t const other = shuffle(sum, lane_id() >= by ? lane_id() - by : 0);
    if (lane_id() >= by) sum += other;
  }
  if (lane_id() == kWarp - 1) shared.warp_counts[threadIdx.x / kWarp] = sum;
  sync_block();
  Places out{sum - own, 0};
  for (std::uint32_t w = 0; w < kWarps; ++w) {
    if (w < threadIdx.x / kWarp) out.before += shared.warp_counts[w];
    out.all += shared.warp_counts[w];
  }
  return out;
}

// Rows of this thread that are among the best `depth` of the tile, and their equals: no other row
// of the tile is among the best of the whole.
__device__ inline std::uint64_t best_of_tile(std::uint64_t found, std::uint32_t depth) {
  Shared& shared = shared_part();
  std::uint32_t const least = select_kth<std::uint32_t, kTextThreads>(
      kDocTileRows, depth, shared.select, [&](std::uint32_t i) {
        std::uint32_t const own = i / kTextThreads;
        return Entry<std::uint32_t>{score_key(shared.sums[own_row(own)]), (found >> own & 1) != 0};
      });
  std::uint64_t kept = 0;
  for (std::uint64_t left = found; left != 0; left &= left - 1) {
    std::uint32_t const i = lowest_of(left);
    if (score_key(shared.sums[own_row(i)]) >= least) kept |= std::uint64_t{1} << i;
  }
  sync_block();  // all have done with the scratch
  if (threadIdx.x == 0) shared.scale = kNone32;
  return kept;
}

// Candidates of the visit's query; all sums are 0 afterwards.
__device__ inline void offer(DenseJob const& job, TextVisit const& visit, std::uint32_t* words) {
  Shared& shared = shared_part();
  std::uint64_t const found = sift(job, visit, words);
  std::uint64_t kept = found;
  Places places = places_of(count(kept));
  std::uint32_t const depth = job.depths[visit.query];
  if (places.all > std::uint64_t{kMostOfDocTile} * depth) {
    kept = best_of_tile(found, depth);
    places = places_of(count(kept));
  }
  if (threadIdx.x == 0 && places.all > 0)
    shared.base = atomicAdd(&job.counts[visit.query], places.all);
  sync_block();
  std::uint64_t* const candidates = candidates_of(job, visit.query);
  std::uint32_t place = shared.base + places.before;
  for (std::uint64_t left = kept; left != 0; left &= left - 1) {
    std::uint32_t const row = own_row(lowest_of(left));
    if (place < job.capacity)
      candidates[place] = candidate_key(shared.sums[row], visit.tile * kDocTileRows + row);
    place += 1;
  }
#pragma unroll 1
  for (std::uint32_t load = 0; load < kLoadsAThread; ++load) {
    if ((found >> (4 * load) & 15) == 0) continue;
    shared_clear(&shared.sums[own_row(4 * load)]);
    if (words != nullptr) shared_clear(&words[own_row(4 * load)]);
  }
  sync_block();  // the next visit finds sums of 0
}

}  // namespace hyrecall::cuda::lexical
