// A text at a document tile: the visit, what its leaves add to the rows, and the candidates that
// the sums become.
#pragma once

#include "kernels/cuda/leaf_spans.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/visit_lists.cuh"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda::lexical {

inline constexpr std::uint32_t kWarps = kTextThreads / kWarp;
inline constexpr std::uint32_t kAhead = kWarps;   // visits that are looked up together, a warp each
inline constexpr std::uint32_t kLeavesAhead = 3;  // whose first postings a thread has asked for
inline constexpr std::uint32_t kTilesADocTile = kDocTileRows / kTileRows;
inline constexpr std::uint32_t kLoadsAThread = kDocTileRows / (4 * kTextThreads);  // of four sums
static_assert(4 * kLoadsAThread == 64, "a thread's rows are the bits of a word");

struct TextVisit {
  std::uint32_t tile;  // of the snapshot, in document tiles
  std::uint32_t segment;
  std::uint32_t first_row;  // in the segment
  std::uint32_t query;
  std::uint32_t group;
  std::uint32_t is_full;  // the query may see all rows of the tile
  std::uint32_t n_spans;  // leaves that occur, of those looked up
  LexicalText text;
};

// What impacts of all leaves have in common.
struct ImpactTerms {
  Bm25Variant variant;
  float k1;
  float delta;
};

struct Shared {
  float sums[kDocTileRows];  // 0 between visits
  union {
    float norms[kNormLengths];
    SelectScratch select;
  };
  LeafSpan spans[kAhead][kSpans];
  TextVisit visits[kAhead];
  std::uint32_t scale;  // whose norms are there, or kNone32
  std::uint32_t warp_counts[kWarps];
  std::uint32_t base;
};
inline constexpr std::size_t kSharedBytes = (sizeof(Shared) + 15) / 16 * 16;
// Six CTAs on a multiprocessor of 228 KB, which takes 1 KB of each for itself.
static_assert(6 * (kSharedBytes + 1024) <= 228 * 1024);
inline constexpr std::size_t kWordBytes = kDocTileRows * sizeof(std::uint32_t);

__device__ inline Shared& shared_part() {
  return *reinterpret_cast<Shared*>(shared_memory());
}
// Bits of the leaves that a row holds, where scores do not tell; 0 between visits.
__device__ inline std::uint32_t* shared_words() {
  return reinterpret_cast<std::uint32_t*>(shared_memory() + kSharedBytes);
}

// One warp calls it.
__device__ inline void plan(DenseJob const& job, std::uint32_t stage, std::uint32_t number,
                            TextVisit& out, LeafSpan* spans) {
  Visit const at = (stage == 0 ? job.first_visits : job.rest_visits)[number];
  TextVisit visit{};
  if (at.tile_class() == TileClass::kEmpty) {  // read before
    if (lane_id() == 0) out = visit;
    return;
  }
  Panel const& panel = job.batch.panels[at.panel()];
  visit.tile = at.tile;
  visit.is_full = at.tile_class() == TileClass::kFull ? 1 : 0;
  visit.segment = find_run(job.segment_tiles, job.n_segments, at.tile * kTilesADocTile);
  visit.first_row = at.tile * kDocTileRows - job.segments[visit.segment].first_tile * kTileRows;
  visit.query = job.batch.panel_queries[panel.query_begin];
  visit.group = job.batch.panel_groups[panel.group_begin];
  visit.text = job.lexical.texts[visit.query];
  visit.n_spans = look_up(job.lexical, job.n_segments, visit.text, visit.segment,
                          visit.first_row / kDocTileRows, 0, spans);
  if (lane_id() == 0) out = visit;
}

// ---- sums

// What a leaf is worth in its query.
struct LeafWorth {
  float weight;
  float shift;
  std::uint32_t bit;  // in words; 0: none are kept
};

// Norms that no table has: of wide postings and of escapes.
__device__ inline float made_norm(DenseJob const& job, TextVisit const& visit,
                                  std::uint32_t length) {
  return bm25_length_norm(job.lexical.bm25, length, job.lexical.scales[visit.text.scale]);
}

__device__ inline void add(ImpactTerms const& terms, LeafWorth const& worth, std::uint32_t row,
                           std::uint32_t term_freq, float norm) {
  float const impact = leaf_impact(terms.variant, terms.k1, terms.delta, worth.weight, worth.shift,
                                   static_cast<float>(term_freq), norm);
  shared_add(&shared_part().sums[row], impact);
  if (worth.bit != 0) shared_or(&shared_words()[row], worth.bit);
}

// Postings 4 x load to + 3 of a leaf.
__device__ inline void add_load(DenseJob const& job, TextVisit const& visit,
                                ImpactTerms const& terms, bool is_compact, LeafSpan const& span,
                                LeafWorth const& worth, std::uint32_t load,
                                FourPostings const& four) {
  PostingFormat const format(is_compact ? PostingFormat::kCompact : PostingFormat::kWide);
#pragma unroll 1
  for (std::uint32_t k = 0; k < kPostingsALoad; ++k) {
    std::uint32_t const at = kPostingsALoad * load + k;
    std::uint32_t const bits =
        k < 2 ? (k == 0 ? four.bits[0] : four.bits[1]) : (k == 2 ? four.bits[2] : four.bits[3]);
    std::uint32_t const freq = format.freq(bits);
    // The host adds 0 for an escape: no sum is -0, since the first addend is +0.
    if (at < span.begin || at >= span.end || freq == format.escape()) continue;
    std::uint32_t const length = format.length(bits);
    float const norm = is_compact ? shared_part().norms[length] : made_norm(job, visit, length);
    add(terms, worth, PostingFormat::row(bits), freq + 1, norm);
  }
}

__device__ inline void add_escapes(DenseJob const& job, TextVisit const& visit,
                                   ImpactTerms const& terms, LeafSpan const& span,
                                   LeafWorth const& worth) {
  std::uint32_t const* const lengths = job.lexical.segments[visit.segment].doc_lengths;
#pragma unroll 1
  for (std::uint32_t i = threadIdx.x; i < span.n_escapes; i += kTextThreads) {
    PostingEscape const escape = span.escapes[i];
    float const norm = made_norm(job, visit, lengths[escape.row]);
    add(terms, worth, escape.row - visit.first_row, escape.term_freq, norm);
  }
}

__device__ inline FourPostings load_postings(LeafSpan const& span, std::uint32_t load) {
  return *reinterpret_cast<FourPostings const*>(span.postings + kPostingsALoad * load);
}

// Of a leaf, those that the thread adds first; 0 where there are none.
__device__ inline FourPostings first_postings(LeafSpan const* spans, std::uint32_t leaf,
                                              std::uint32_t n) {
  bool const is_there = leaf < n && kPostingsALoad * threadIdx.x < spans[leaf].end;
  return is_there ? load_postings(spans[leaf], threadIdx.x) : FourPostings{};
}

// Adds the leaves that were looked up. Rows of one leaf are distinct, so that no two threads meet
// between two barriers; leaves come one after another, so that a row's sum has the host's order.
__device__ inline void add_leaves(DenseJob const& job, TextVisit const& visit,
                                  LeafSpan const* spans, std::uint32_t first_leaf,
                                  ImpactTerms const& terms, bool has_words) {
  LexicalJob const& lexical = job.lexical;
  bool const is_compact = lexical.segments[visit.segment].posting_width == PostingFormat::kCompact;
  std::uint32_t const leaf_begin = visit.text.leaf_begin + first_leaf;
  std::uint32_t const n = visit.n_spans;
  // The first postings of the leaves to come are on their way while one is added.
  FourPostings ahead[kLeavesAhead];
#pragma unroll
  for (std::uint32_t i = 0; i < kLeavesAhead; ++i) ahead[i] = first_postings(spans, i, n);
#pragma unroll 1
  for (std::uint32_t i = 0; i < n; ++i) {
    LeafSpan const& span = spans[i];
    std::uint32_t const leaf = leaf_begin + span.leaf;
    LeafWorth const worth{lexical.weights[leaf],
                          lexical.shifts != nullptr ? lexical.shifts[leaf] : 0.0f,
                          has_words ? 1u << span.leaf : 0u};
    FourPostings four = ahead[0];
#pragma unroll
    for (std::uint32_t k = 1; k < kLeavesAhead; ++k) ahead[k - 1] = ahead[k];
    ahead[kLeavesAhead - 1] = first_postings(spans, i + kLeavesAhead, n);
#pragma unroll 1
    for (std::uint32_t load = threadIdx.x; kPostingsALoad * load < span.end;) {
      add_load(job, visit, terms, is_compact, span, worth, load, four);
      load += kTextThreads;
      if (kPostingsALoad * load < span.end) four = load_postings(span, load);
    }
    add_escapes(job, visit, terms, spans[i], worth);
    sync_block();  // before the next leaf meets these rows
  }
}

// ---- candidates

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
