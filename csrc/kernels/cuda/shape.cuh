// The kernels of the stages that compare the vectors of a batch's lists.
#pragma once

#include "kernels/cuda/primitives.cuh"
#include "kernels/cuda/warp_math.cuh"
#include "kernels/shared/shape_job.hpp"

namespace hyrecall::cuda {

inline constexpr unsigned kShapeThreads = 128;
inline constexpr unsigned kShapeWarps = kShapeThreads / 32;

// A CTA a query each, with so much shared memory as the function after it says.
__global__ void dedup_lists(ShapeJob const* job);
std::size_t dedup_bytes();
__global__ void diversify_lists(ShapeJob const* job);
std::size_t mmr_bytes();

// A row of the column as it was given.
struct RowValues {
  std::uint8_t const* rows;
  RowType type;
  std::uint32_t dim;
  std::uint32_t row;

  __device__ float operator[](std::uint32_t i) const { return row_value(rows, type, dim, row, i); }
};

__device__ inline float inverse_norm_of(ShapeJob const& job, std::uint32_t entry) {
  return job.segments[job.segment[entry]].inverse_norms[job.row[entry]];
}

__device__ inline bool has_vector(ShapeJob const& job, std::uint32_t entry) {
  return inverse_norm_of(job, entry) != 0.0f;
}

// Canonical cosine of two entries that have a vector, the first as query. A warp calls it; all
// lanes have the result.
__device__ inline float cosine_of(ShapeJob const& job, std::uint32_t query, std::uint32_t entry) {
  DenseSegment const& of_query = job.segments[job.segment[query]];
  DenseSegment const& of_entry = job.segments[job.segment[entry]];
  std::uint32_t const query_row = job.row[query];
  std::uint32_t const row = job.row[entry];
  float dot;
  if (job.row_type == RowType::kFloat32) {
    auto const* const values =
        reinterpret_cast<float const*>(of_query.rows) + std::size_t{query_row} * job.dim;
    auto const* const others =
        reinterpret_cast<float const*>(of_entry.rows) + std::size_t{row} * job.dim;
    dot = dot_by_warp(job.dim, values, [=](std::uint32_t i) { return others[i]; });
  } else {
    RowValues const values{of_query.rows, job.row_type, job.dim, query_row};
    RowValues const others{of_entry.rows, job.row_type, job.dim, row};
    dot = dot_by_warp<1>(job.dim, values, [&](std::uint32_t i) { return others[i]; });
  }
  return cosine(shuffle(dot, 0), of_entry.inverse_norms[row], of_query.inverse_norms[query_row]);
}

}  // namespace hyrecall::cuda
