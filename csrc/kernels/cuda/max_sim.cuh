// Queries and rows of many vectors: how a query's vectors lie for the matrix units, and canonical
// scores by a warp.
//
// A query's vectors are cut into *panels* of 32. A panel lies in memory as lanes read it: of each
// chunk and each 8 vectors, lane l has two pieces of 16 bytes of vector l / 4, numbers l mod 4 and
// + 4. Lanes read the same pieces of a row, and integers add up to the same in any order.
#pragma once

#include "kernels/cuda/warp_math.cuh"

namespace hyrecall::cuda {

inline constexpr std::uint32_t kPanelVectors = 32;
inline constexpr std::uint32_t kVectorBlocks = kPanelVectors / 8;
inline constexpr std::uint32_t kPanelPieces = kPanelVectors * kPieces;  // of a chunk
// Up to here panels are copied to shared memory: 64 KB.
inline constexpr std::uint32_t kStagedChunks = 16;

// Where a panel's piece lies, of a vector of the panel.
HYRECALL_HD constexpr std::uint32_t place_in_panel(std::uint32_t vector, std::uint32_t chunk,
                                                   std::uint32_t piece) {
  std::uint32_t const block = (chunk * kVectorBlocks + vector / 8) * 2 + piece / 4;
  return block * kLanes + vector % 8 * 4 + piece % 4;
}

// Room for the panels of all queries, in vectors. A query's begin as first_panel() says: between
// two queries that is at least as many as the first one has.
HYRECALL_HD constexpr std::size_t places_of_vectors(std::size_t n_queries, std::size_t n_vectors) {
  return (n_vectors / kPanelVectors + n_queries) * kPanelVectors;
}
__device__ inline std::uint32_t first_panel(DenseJob const& job, std::uint32_t query) {
  return job.vector_begins[query] / kPanelVectors + query;
}
__device__ inline std::uint8_t* panel_at(DenseJob const& job, std::uint32_t panel) {
  return job.plane_queries + std::size_t{panel} * job.plane_chunks * kPanelPieces * kPieceBytes;
}

// Lane l gets fold_warp() of number l: 31 exchanges for 32 sums. Each addition is one of the
// definition's, but for its order of two.
template <unsigned kWidth = kLanes / 2>
__device__ inline float fold_each(float (&values)[kLanes]) {
  bool const is_upper = (lane_id() & kWidth) != 0;
#pragma unroll
  for (unsigned i = 0; i < kWidth; ++i) {
    float const other = shuffle(is_upper ? values[i] : values[i + kWidth], lane_id() ^ kWidth);
    values[i] = (is_upper ? values[i + kWidth] : values[i]) + other;
  }
  if constexpr (kWidth > 1) return fold_each<kWidth / 2>(values);
  return values[0];
}

// Lane l gets the canonical dot of a row's vector with number l of n <= 32 vectors.
__device__ inline float dots_by_warp(DenseJob const& job, DenseSegment const& segment,
                                     std::uint32_t vector, float const* queries, std::uint32_t n) {
  float sums[kPanelVectors] = {};
  for (std::uint32_t base = 0; base < job.dim; base += kLanes) {
    std::uint32_t const i = base + lane_id();
    bool const is_there = i < job.dim;
    float const x = is_there ? row_value(segment.rows, job.row_type, job.dim, vector, i) : 0.0f;
    float const* at = queries + i;
#pragma unroll
    for (std::uint32_t k = 0; k < kPanelVectors; ++k, at += job.dim)
      sums[k] = fma_rn(x, is_there && k < n ? *at : 0.0f, sums[k]);
  }
  return fold_each(sums);
}

// As score_key_by_warp(); every lane has it.
__device__ inline std::uint32_t max_sim_key_by_warp(DenseJob const& job, std::uint32_t query,
                                                    std::uint32_t slot) {
  DenseSegment const& segment = segment_of_tile(job, slot / kTileRows);
  std::uint32_t const row = slot - segment.first_tile * kTileRows;
  std::uint32_t const end = job.vector_begins[query + 1];
  double sum = 0.0;
#pragma unroll 1
  for (std::uint32_t first = job.vector_begins[query]; first < end; first += kPanelVectors) {
    std::uint32_t const n = end - first < kPanelVectors ? end - first : kPanelVectors;
    float const inverse = job.inverse_query_norms[first + (lane_id() < n ? lane_id() : 0)];
    float best = -__builtin_inff();
#pragma unroll 1
    for (std::uint32_t v = segment.begins[row]; v < segment.begins[row + 1]; ++v) {
      float const norm = segment.inverse_norms[v];
      if (norm == 0.0f) continue;  // missing
      float const dot =
          dots_by_warp(job, segment, v, job.queries + std::size_t{first} * job.dim, n);
      float const one = cosine(dot, norm, inverse);
      best = one > best ? one : best;
    }
#pragma unroll 1
    for (std::uint32_t k = 0; k < n; ++k) sum = max_sim_sum(sum, shuffle(best, k));
  }
  return score_key(max_sim_score(sum));
}

}  // namespace hyrecall::cuda
