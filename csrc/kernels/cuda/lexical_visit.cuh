// A text at a document tile, and the shared memory of the CTA that visits it.
#pragma once

#include "kernels/cuda/leaf_spans.cuh"
#include "kernels/cuda/lexical.cuh"
#include "kernels/cuda/select.cuh"
#include "kernels/cuda/visit_lists.cuh"

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

}  // namespace hyrecall::cuda::lexical
