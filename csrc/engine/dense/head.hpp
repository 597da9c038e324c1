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
#include "kernels/head_bound.hpp"

namespace hyrecall {

inline constexpr std::size_t kMostDirections = 512;  // more take seconds to check

// The directions of a column of a segment, which never change.
class Directions {
 public:
  // values: [n, dim], one direction after the other. Throws kCorrupt if they are not about
  // orthonormal.
  Directions(Buffer<float> values, std::uint32_t dim, std::string const& argument);

  Buffer<float> const& values() const { return values_; }
  std::uint32_t dim() const { return dim_; }
  std::uint32_t size() const { return size_; }
  std::uint32_t head_dim() const { return static_cast<std::uint32_t>(hyrecall::head_dim(size_)); }
  HeadBound const& bound() const { return bound_; }

  // Writes the heads of vectors, [n, head_dim()], in the units of the stored vectors. vectors:
  // [n, dim] as stored; norms: row_norm's, 0 where there is none: such a head is 0. A few vectors
  // at a time stay in the first-level cache while the directions pass.
  void project(float const* vectors, std::span<double const> norms, float* heads) const;
  // Writes the head_dim() codes of a head and returns their scale and residual.
  Int8Row quantize(float const* head, double norm, CodeBits bits, std::int8_t* codes) const;

 private:
  Buffer<float> values_;
  std::vector<float> padded_;  // the same, each with +0 to a multiple of kLanes
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
