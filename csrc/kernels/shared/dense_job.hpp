// One batch on one column of one snapshot, as kernels see it: where everything lies on the device.
// The column is dense, or lexical: then `lexical` says what queries and rows are. Every kernel
// takes a pointer to a DenseJob, so that a recorded sequence of kernels serves any batch of its
// size.
#pragma once

#include <cstdint>

#include "kernels/int8_bound.hpp"
#include "kernels/shared/dense_batch.hpp"
#include "kernels/shared/dense_rows.hpp"
#include "kernels/shared/guest_tensor.hpp"
#include "kernels/shared/lexical_job.hpp"
#include "kernels/shared/sparse_job.hpp"
#include "kernels/shared/tile_filter.hpp"

namespace hyrecall {

// One segment; row r of it is slot first_tile * kTileRows + r. Of a lexical column there are no
// rows, and segments begin at document tiles.
struct DenseSegment {
  std::uint32_t first_tile;
  std::uint32_t n_rows;
  // [2 * n_tiles] rows that live and have a vector; of a lexical column rows that live, null: all
  std::uint64_t const* live;
  std::int64_t const* seqs;         // [n_rows]
  AttributeView const* attributes;  // [n_attributes]
  std::uint8_t const* rows;         // as given: float32 [n_rows, dim]; 16-bit types a tiled plane
  float const* inverse_norms;       // [n_rows]
  std::uint8_t const* codes;        // the int8 plane, tiled
  float const* scales;              // [n_rows]
  float const* residuals;           // [n_rows]
  // Null: a row has one vector. Else [n_rows + 1] row r has the vectors from begins[r] to
  // begins[r + 1], and what stands above of a row is of a vector, but for the residuals: a row's is
  // the greatest of its vectors.
  std::uint32_t const* begins;
  SparseSegment sparse;  // set: the rows are sparse, and have no other vectors
};

struct DenseJob {
  DenseBatch batch;

  DenseSegment const* segments;        // rising first_tile
  std::uint32_t const* segment_tiles;  // [n_segments] their first_tile
  std::uint32_t n_segments;
  std::uint32_t dim;
  RowType row_type;
  FirstPassPlane plane;        // what the first pass reads
  float greatest_residual;     // of any row in that plane
  std::uint32_t plane_chunks;  // of a row of that plane and of a query in it

  SegmentFilter const* filters;  // [n_filters, n_segments]
  TileTest const* tests;
  std::int64_t const* codes;  // of tests

  // Where queries come from, if they lie on the device already: which row of the tensor each is.
  GuestTensor guest;
  std::uint32_t const* guest_rows;  // [n_queries]
  float* guest_values;              // [n_queries, dim] made by a kernel; then queries are these
  GuestReading* readings;           // [n_queries] likewise

  LexicalJob lexical;
  // Candidates are known by their scores: they have no bounds and cuts.
  std::uint32_t is_exact;
  std::uint32_t is_asked;  // candidates stay as the first pass found them, and nothing else is made

  // Null: a query has one vector. Else [n_queries + 1] which of `queries` each has; what is made of
  // a vector, the norms and the scales, is by vector then. See max_sim.cuh.
  std::uint32_t const* vector_begins;
  QueryBound* vector_bounds;  // [n_vectors] of queries of many vectors
  // Of sparse queries, which have none of these vectors: see SparseTerms.
  std::uint32_t const* sparse_begins;  // [n_queries * n_segments + 1]
  SparseRuns const* sparse_runs;
  float const* queries;         // [n_queries, dim]
  float const* floors;          // [n_queries] the least score, -inf: none
  std::uint8_t const* strict;   // [n_queries] whether a score must lie above it
  std::uint32_t const* depths;  // [n_queries] how many rows each wants, at most depth
  std::uint32_t depth;
  std::uint32_t capacity;      // candidates a query may have
  std::uint32_t room;          // places for them, or for twice as many scores
  std::uint32_t most_entries;  // of a query: candidates, or scores of all its rows
  std::uint32_t most_samples;  // of a query: of each tile one for kSampleRows rows

  // Made by kernels.
  Visit* first_visits;          // [n_first]
  Visit* rest_visits;           // [n_rest]
  Visit* wide_visits;           // [n_wide] of a wide panel its first panel
  std::uint8_t* plane_queries;  // by panel and chunk a block of `width` queries; see Panel
  float* inverse_query_norms;   // [n_queries]
  float* query_scales;          // [n_queries] 1 in 16-bit planes
  QueryBound* bounds;           // [n_queries]
  float* cuts;                  // [n_queries] see cut_for
  float* thresholds;            // [n_queries] scores below cannot be among the best
  float* guesses;               // [n_queries] scores below are likely not; -inf: no guess
  std::uint32_t* counts;        // [n_queries] candidates found, those past capacity too
  std::uint32_t* overflows;     // [n_queries] 1: the answer may lack some rows
  // [n_queries, most_samples] score_key of the best of kSampleRows rows; 0: none passes
  std::uint32_t* samples;
  // [n_queries, room] candidate_key. Of a query that reads all of its tiles first, instead the
  // score_key of each row's lower score, 0 where it passes not: see slot_of_place.
  std::uint64_t* candidates;
  // Where CTAs share a query: CTAs that are done, and its entries with canonical scores, 0 for
  // none.
  std::uint32_t* tickets;        // [n_queries]
  std::uint64_t* shares;         // [n_queries, most_entries] candidate_key
  std::uint32_t* result_counts;  // by place
  // A query's results begin at its place x result_stride.
  float* result_scores;
  std::int64_t* result_seqs;
  std::uint32_t* result_slots;
  std::uint32_t result_stride;
  std::uint32_t const* result_places;  // [n_queries]; null: as the queries
};

HYRECALL_HD inline std::uint64_t* candidates_of(DenseJob const& job, std::uint32_t query) {
  return job.candidates + std::size_t{query} * job.room;
}
HYRECALL_HD inline std::uint32_t* scores_of(DenseJob const& job, std::uint32_t query) {
  return reinterpret_cast<std::uint32_t*>(candidates_of(job, query));
}

// Where a panel's queries begin, in bytes: a block of its width a chunk.
HYRECALL_HD inline std::size_t queries_of_panel(DenseJob const& job, Panel const& panel) {
  return std::size_t{panel.plane_begin} * job.plane_chunks * kChunkBytes;
}

// Where a query's results go.
HYRECALL_HD inline std::size_t result_place(DenseJob const& job, std::uint32_t query) {
  return job.result_places != nullptr ? job.result_places[query] : query;
}

HYRECALL_HD inline DenseSegment const& segment_of_tile(DenseJob const& job, std::uint32_t tile) {
  return job.segments[find_run(job.segment_tiles, job.n_segments, tile)];
}

}  // namespace hyrecall
