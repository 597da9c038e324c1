// The canonical sums of core/formulas.hpp by a warp: lane j of the warp is lane j of the
// definition, so the bits are the host's.
#pragma once

#include "core/formulas.hpp"
#include "kernels/cuda/primitives.cuh"
#include "kernels/shared/dense_job.hpp"
#include "kernels/shared/score_key.hpp"

namespace hyrecall::cuda {

static_assert(kLanes == 32, "a warp is the 32 lanes of the definition");

// fold_lanes: all lanes call it, lane 0 has the sum.
template <typename T>
__device__ inline T fold_warp(T value) {
  for (unsigned width = kLanes / 2; width >= 1; width /= 2) {
    T const other = shuffle_down(value, width);
    value = value + other;
  }
  return value;
}

// Element i of a row as it was given.
__device__ inline float row_value(std::uint8_t const* rows, RowType type, std::uint32_t dim,
                                  std::uint32_t row, std::uint32_t i) {
  if (type == RowType::kFloat32)
    return reinterpret_cast<float const*>(rows)[std::size_t{row} * dim + i];
  std::uint16_t const bits = *reinterpret_cast<std::uint16_t const*>(
      rows + place_in_plane(row, 2 * i, chunks_of(2 * dim)));
  return type == RowType::kFloat16 ? float16_value(bits) : bfloat16_value(bits);
}

// The canonical dot of element(i) and query[i]; lane 0 has it. The definition pads with +0, and
// fma(0, 0, x) is x but for a sum of -0, which the padding makes +0. A lane asks for kAhead
// elements before it needs the first: rows lie anywhere in memory, and each read takes long.
template <std::uint32_t kAhead = 4, typename Query, typename Element>
__device__ inline float dot_by_warp(std::uint32_t dim, Query const& query, Element&& element) {
  float sum = 0.0f;
  std::uint32_t const lane = lane_id();
  std::uint32_t base = 0;
  for (; base + kAhead * kLanes <= dim; base += kAhead * kLanes) {
    float ahead[kAhead];
#pragma unroll
    for (std::uint32_t k = 0; k < kAhead; ++k) ahead[k] = element(base + k * kLanes + lane);
#pragma unroll
    for (std::uint32_t k = 0; k < kAhead; ++k)
      sum = fma_rn(ahead[k], query[base + k * kLanes + lane], sum);
  }
#pragma unroll 4
  for (; base < dim; base += kLanes) {
    std::uint32_t const i = base + lane;
    float const x = i < dim ? element(i) : 0.0f;
    float const q = i < dim ? query[i] : 0.0f;
    sum = fma_rn(x, q, sum);
  }
  return fold_warp(sum);
}

// The canonical dot of a row of bfloat16 and a query; lane 0 has it. A lane reads two elements at a
// time, which are others' to add: 64 elements are one line of memory.
template <std::uint32_t kAhead>
__device__ inline float dot_of_bfloat16(std::uint8_t const* rows, std::uint32_t dim,
                                        std::uint32_t row, float const* query) {
  std::uint32_t const lane = lane_id();
  std::uint32_t const n_chunks = chunks_of(2 * dim);
  float sum = 0.0f;
  for (std::uint32_t first = 0; first < n_chunks; first += kAhead) {
    std::uint32_t ahead[kAhead];
#pragma unroll
    for (std::uint32_t k = 0; k < kAhead; ++k) {
      std::uint32_t const chunk = first + k < n_chunks ? first + k : first;
      ahead[k] = *reinterpret_cast<std::uint32_t const*>(
          rows + place_in_plane(row, chunk * kChunkBytes + 4 * lane, n_chunks));
    }
#pragma unroll
    for (std::uint32_t k = 0; k < kAhead; ++k) {
#pragma unroll
      for (std::uint32_t half = 0; half < 2; ++half) {
        std::uint32_t const pair = shuffle(ahead[k], half * kLanes / 2 + lane / 2);
        auto const bits = static_cast<std::uint16_t>(lane % 2 == 0 ? pair : pair >> 16);
        std::uint32_t const i = (2 * (first + k) + half) * kLanes + lane;
        if (i < dim) sum = fma_rn(bfloat16_value(bits), query[i], sum);
      }
    }
  }
  // The definition pads with +0, which makes +0 of a sum of -0.
  return fold_warp(fma_rn(0.0f, 0.0f, sum));
}

// The key of a row's canonical score with a query of the job; lane 0 has it.
__device__ inline std::uint32_t score_key_by_warp(DenseJob const& job, std::uint32_t query,
                                                  std::uint32_t slot) {
  DenseSegment const& segment = segment_of_tile(job, slot / kTileRows);
  std::uint32_t const row = slot - segment.first_tile * kTileRows;
  float const* const values = job.queries + std::size_t{query} * job.dim;
  float dot;
  if (job.row_type == RowType::kFloat32) {  // 256 elements of a row are on their way at a time
    float const* const own =
        reinterpret_cast<float const*>(segment.rows) + std::size_t{row} * job.dim;
    dot = dot_by_warp<8>(job.dim, values, [=](std::uint32_t at) { return own[at]; });
  } else if (job.row_type == RowType::kBFloat16) {
    dot = dot_of_bfloat16<6>(segment.rows, job.dim, row, values);
  } else {
    dot = dot_by_warp<4>(job.dim, values, [&](std::uint32_t at) {
      return row_value(segment.rows, RowType::kFloat16, job.dim, row, at);
    });
  }
  return score_key(cosine(dot, segment.inverse_norms[row], job.inverse_query_norms[query]));
}

// row_norm of element(i); every lane has it.
template <typename Element>
__device__ inline double norm_by_warp(std::uint32_t dim, Element&& element) {
  double sum = 0.0;
  for (std::uint32_t i = lane_id(); i < dim; i += kLanes) {
    double const x = element(i);
    sum = sum + x * x;
  }
  return sqrt(shuffle(fold_warp(sum), 0));
}

// An int8 plane's copy of a vector: store(i, code) for every i of its chunks, 0 from dim on; every
// lane gets scale and residual. As quantize_row on the host.
template <typename Element, typename Store>
__device__ inline Int8Row quantize_by_warp(std::uint32_t dim, Element&& element, double norm,
                                           Store&& store) {
  std::uint32_t const lane = lane_id();
  double most = 0.0;
  for (std::uint32_t i = lane; norm != 0.0 && i < dim; i += kLanes) {
    double const unit = unit_value(element(i), norm);
    double const size = unit < 0.0 ? -unit : unit;
    most = size > most ? size : most;
  }
  for (unsigned width = kLanes / 2; width >= 1; width /= 2) {
    double const other = shuffle_down(most, width);
    most = other > most ? other : most;
  }
  most = shuffle(most, 0);
  float const scale = most == 0.0 ? 0.0f : int8_scale(most);
  double sum = 0.0;
  for (std::uint32_t i = lane; i < chunks_of(dim) * kChunkBytes; i += kLanes) {
    std::int8_t code = 0;
    if (scale != 0.0f && i < dim) {
      double const unit = unit_value(element(i), norm);
      code = int8_code(unit, scale);
      double const left = left_over(unit, int8_value(code, scale));
      sum = sum + left * left;
    }
    store(i, code);
  }
  float const residual = residual_up(shuffle(fold_warp(sum), 0), dim);
  return {scale, scale == 0.0f ? 0.0f : residual};
}

// A bfloat16 plane's copy of a unit vector likewise: store(i, bits); gives the residual.
template <typename Element, typename Store>
__device__ inline float round_by_warp(std::uint32_t dim, Element&& element, double norm,
                                      Store&& store) {
  double sum = 0.0;
  for (std::uint32_t i = lane_id(); i < chunks_of(2 * dim) * (kChunkBytes / 2); i += kLanes) {
    double const unit = norm == 0.0 || i >= dim ? 0.0 : unit_value(element(i), norm);
    std::uint16_t const bits = bfloat16_bits(unit);
    double const left = left_over(unit, bfloat16_value(bits));
    sum = sum + left * left;
    store(i, bits);
  }
  return residual_up(shuffle(fold_warp(sum), 0), dim);
}

}  // namespace hyrecall::cuda
