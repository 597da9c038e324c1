#include "engine/dense/head.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/nibble_code.hpp"

namespace hyrecall {
namespace {

// Four sums, in float64: the bound allows any order.
double dot_of(float const* a, float const* b, std::size_t n) {
  double sums[4] = {};
  for (std::size_t i = 0; i < n; ++i) sums[i % 4] += static_cast<double>(a[i]) * b[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}

}  // namespace

Directions::Directions(Buffer<float> values, std::uint32_t dim, std::string const& argument)
    : values_(std::move(values)), dim_(dim), size_(0) {
  if (dim == 0 || values_.empty() || values_.size() % dim != 0 ||
      values_.size() / dim > std::min<std::size_t>(dim, kMostDirections))
    throw Error(ErrorCode::kCorrupt, argument,
                "expected directions of " + std::to_string(dim) + " elements, got another size");
  size_ = static_cast<std::uint32_t>(values_.size() / dim);
  double const deviation = head_deviation(dim, size_, [&](std::size_t i, std::size_t j) {
    return dot_of(values_.data() + i * dim, values_.data() + j * dim, dim);
  });
  std::optional<HeadBound> const bound = head_bound(dim, size_, deviation);
  if (!bound)
    throw Error(ErrorCode::kCorrupt, argument, "expected orthonormal directions, got others");
  bound_ = *bound;
  std::size_t const stride = (dim + kLanes - 1) / kLanes * kLanes;
  padded_.resize(size_ * stride, 0.0f);
  for (std::size_t i = 0; i < size_; ++i)
    std::copy_n(values_.data() + i * dim, dim,
                padded_.begin() + static_cast<std::ptrdiff_t>(i * stride));
}

void Directions::project(float const* vectors, std::span<double const> norms, float* heads) const {
  std::size_t const stride = padded_.size() / size_;
  std::vector<float> dots(norms.size());
  for (std::size_t i = 0; i < size_; ++i) {
    cpu::kernels().dot.float32(padded_.data() + i * stride, vectors, norms.size(), dim_,
                               dots.data());
    for (std::size_t r = 0; r < norms.size(); ++r)
      heads[r * head_dim() + i] = norms[r] == 0.0 ? 0.0f : dots[r];
  }
  for (std::size_t r = 0; r < norms.size(); ++r) {
    float* const head = heads + r * head_dim();
    std::fill(head + size_, head + head_dim(), 0.0f);
    if (norms[r] != 0.0) fill_rest(size_, norms[r], bound_, head);
  }
}

Int8Row Directions::quantize(float const* head, double norm, CodeBits bits,
                             std::int8_t* codes) const {
  auto const element = [&](std::size_t i) { return head[i]; };
  return bits == CodeBits::k8 ? quantize_row(head_dim(), element, norm, codes)
                              : quantize_nibbles(head_dim(), element, norm, codes);
}

}  // namespace hyrecall
