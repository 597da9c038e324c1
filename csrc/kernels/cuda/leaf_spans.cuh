// Where the leaves of a text lie in a document tile: a warp looks up 32 at once.
#pragma once

#include "kernels/cuda/postings.cuh"
#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kSpans = 32;  // leaves of a text that are looked up together

// A leaf's postings in a document tile.
struct LeafSpan {
  std::uint32_t const* postings;  // of a load of 16 bytes: the first ones may be another tile's
  PostingEscape const* escapes;   // rising rows
  std::uint16_t begin;            // postings [begin, end) are the leaf's
  std::uint16_t end;
  std::uint16_t n_escapes;
  std::uint16_t leaf;  // among those looked up together
};
static_assert(sizeof(LeafSpan) == 24);

// A list as the search for a tile reads it.
struct LeafList {
  std::uint32_t const* postings;  // of all lists of its kind
  std::uint64_t posting_begin;
  std::uint32_t n_postings;
  PostingRun const* runs;
  std::uint32_t n_runs;
  PostingEscape const* escapes;
  std::uint32_t n_escapes;
};

__device__ inline LeafList list_of(LexicalJob const& job, LexicalSegment const& segment,
                                   std::uint32_t number) {
  if (number >= kFirstOwnList) {
    OwnList const own = job.own_lists[number - kFirstOwnList];
    return {job.own_postings, own.posting_begin,
            own.n_postings,   job.own_runs + own.run_begin,
            own.n_runs,       job.own_escapes + own.escape_begin,
            own.n_escapes};
  }
  std::uint64_t const begin = segment.posting_offsets[number];
  std::uint32_t const run = segment.run_offsets[number];
  std::uint32_t const escape = segment.escape_offsets[number];
  return {segment.postings,
          begin,
          static_cast<std::uint32_t>(segment.posting_offsets[number + 1] - begin),
          segment.runs + run,
          segment.run_offsets[number + 1] - run,
          segment.escapes + escape,
          segment.escape_offsets[number + 1] - escape};
}

// The first run of the tile or of one after it.
__device__ inline std::uint32_t run_from(PostingRun const* runs, std::uint32_t n,
                                         std::uint32_t tile) {
  // Tiles rise, so run i is of tile i or one after it; a frequent term has a run of each.
  if (tile < n && runs[tile].tile == tile) return tile;
  return find_first(0, tile < n ? tile : n, [=](std::uint32_t i) { return runs[i].tile < tile; });
}

__device__ inline std::uint32_t escape_from(PostingEscape const* escapes, std::uint32_t n,
                                            std::uint64_t row) {
  return find_first(0, n, [=](std::uint32_t i) { return escapes[i].row < row; });
}

// false: the leaf has no posting in the tile.
__device__ inline bool find_span(LexicalJob const& job, LexicalSegment const& segment,
                                 std::uint32_t number, std::uint32_t tile, LeafSpan& out) {
  if (number == kNone32) return false;
  LeafList const list = list_of(job, segment, number);
  std::uint32_t const run = run_from(list.runs, list.n_runs, tile);
  if (run == list.n_runs || list.runs[run].tile != tile) return false;
  std::uint32_t const begin = list.runs[run].begin;
  std::uint32_t const end = run + 1 < list.n_runs ? list.runs[run + 1].begin : list.n_postings;
  auto const lead = static_cast<std::uint32_t>((list.posting_begin + begin) % kPostingsALoad);
  out.postings = list.postings + (list.posting_begin + begin - lead);
  out.begin = static_cast<std::uint16_t>(lead);
  out.end = static_cast<std::uint16_t>(lead + (end - begin));
  std::uint64_t const first_row = std::uint64_t{tile} * kDocTileRows;
  std::uint32_t const escape = escape_from(list.escapes, list.n_escapes, first_row);
  std::uint32_t const left = list.n_escapes - escape;
  out.escapes = list.escapes + escape;
  out.n_escapes =
      static_cast<std::uint16_t>(escape_from(out.escapes, left, first_row + kDocTileRows));
  return true;
}

// The leaves from first_leaf on that have postings in the tile, in their order; gives how many.
// One warp calls it.
__device__ inline std::uint32_t look_up(LexicalJob const& job, std::uint32_t n_segments,
                                        LexicalText const& text, std::uint32_t segment,
                                        std::uint32_t tile, std::uint32_t first_leaf,
                                        LeafSpan* to) {
  std::uint32_t const lane = lane_id();
  LeafSpan own{};
  bool is_there = false;
  if (first_leaf + lane < text.n_leaves) {
    std::uint32_t const leaf = text.leaf_begin + first_leaf + lane;
    std::uint32_t const number = job.lists[std::size_t{leaf} * n_segments + segment];
    is_there = find_span(job, job.segments[segment], number, tile, own);
  }
  own.leaf = static_cast<std::uint16_t>(lane);
  std::uint32_t const found = ballot(is_there);
  if (is_there) to[popcount(found & ((1u << lane) - 1))] = own;
  return popcount(found);
}

}  // namespace hyrecall::cuda
