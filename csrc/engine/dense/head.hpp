// The heads of a tensor column's vectors (kernels/head_bound.hpp): a plane of few dimensions that a
// scan reads before the int8 plane of whole vectors.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/buffer.hpp"
#include "engine/dense/code_plane.hpp"
#include "kernels/cpu/head_rows.hpp"
#include "kernels/head_bound.hpp"

namespace hyrecall {

inline constexpr std::size_t kMostDirections = 512;  // more take seconds to check

// Copies vectors into the layout of HeadKernels::products, as n_groups groups. vectors: [n, dim].
// Missing vectors are 0.
std::vector<float> grouped(float const* vectors, std::size_t n, std::size_t dim,
                           std::size_t n_groups);

// The directions of a segment's column. Immutable.
class Directions {
 public:
  // values: [n, dim], one direction after the other. Throws kCorrupt unless they are orthonormal
  // within the bound's tolerance.
  Directions(Buffer<float> values, std::uint32_t dim, std::string const& argument);

  Buffer<float> const& values() const { return values_; }
  std::uint32_t dim() const { return dim_; }
  std::uint32_t size() const { return size_; }
  std::uint32_t head_dim() const { return static_cast<std::uint32_t>(hyrecall::head_dim(size_)); }
  HeadBound const& bound() const { return bound_; }

  // Writes the head of a vector: head_dim() numbers in units of the vector. padded: with +0 to a
  // multiple of kLanes; norm: from row_norm, 0 if there is no vector (its head is 0).
  void project(float const* padded, double norm, float* head) const;
  // Writes the heads of unit rows, [n, head_dim()]. vectors: [n, dim] as stored; inverse_norms: 0
  // if there is no vector (its head is 0). Call it with a few dozen rows, which stay in a cache
  // while all directions are read.
  void project_rows(float const* vectors, std::span<float const> inverse_norms, float* heads) const;
  // Writes the head_dim() codes of a head and returns their scale and residual.
  Int8Row quantize(float const* head, double norm, CodeBits bits, std::int8_t* codes) const;

 private:
  Buffer<float> values_;
  std::vector<float> grouped_;  // the same in the layout of HeadKernels::products
  std::uint32_t dim_;
  std::uint32_t size_;
  HeadBound bound_;
};

struct Head {
  std::shared_ptr<Directions const> directions;  // null: the column has no heads
  CodePlane plane;  // of directions->head_dim() dimensions; of 8 bits or of 4

  bool empty() const { return directions == nullptr; }
  std::size_t bytes() const { return empty() ? 0 : directions->values().bytes() + plane.bytes(); }
};

}  // namespace hyrecall
