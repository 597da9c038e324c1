#include "engine/dense/head.hpp"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "kernels/cpu/isa.hpp"
#include "kernels/nibble_code.hpp"

namespace hyrecall {
namespace {

// In float64 with several partial sums: the bound allows any order.
double dot_of(double const* a, double const* b, std::size_t n) {
  constexpr std::size_t kSums = 8;
  double sums[kSums] = {};
  std::size_t i = 0;
  for (; i + kSums <= n; i += kSums) {
    for (std::size_t j = 0; j < kSums; ++j) sums[j] += a[i + j] * b[i + j];
  }
  for (; i < n; ++i) sums[0] += a[i] * b[i];
  return ((sums[0] + sums[1]) + (sums[2] + sums[3])) + ((sums[4] + sums[5]) + (sums[6] + sums[7]));
}

using cpu::kHeadGroup;

}  // namespace

std::vector<float> grouped(float const* vectors, std::size_t n, std::size_t dim,
                           std::size_t n_groups) {
  std::vector<float> out(n_groups * dim * kHeadGroup);
  for (std::size_t i = 0; i < n; ++i) {
    float* const to = out.data() + i / kHeadGroup * dim * kHeadGroup + i % kHeadGroup;
    for (std::size_t k = 0; k < dim; ++k) to[k * kHeadGroup] = vectors[i * dim + k];
  }
  return out;
}

Directions::Directions(Buffer<float> values, std::uint32_t dim, std::string const& argument)
    : values_(std::move(values)), dim_(dim), size_(0) {
  if (dim == 0 || values_.empty() || values_.size() % dim != 0 ||
      values_.size() / dim > std::min<std::size_t>(dim, kMostDirections))
    throw Error(ErrorCode::kCorrupt, argument,
                "expected directions of " + std::to_string(dim) + " elements, got another size");
  size_ = static_cast<std::uint32_t>(values_.size() / dim);
  std::vector<double> const wide(values_.data(), values_.data() + values_.size());
  double const deviation = head_deviation(dim, size_, [&](std::size_t i, std::size_t j) {
    return dot_of(wide.data() + i * dim, wide.data() + j * dim, dim);
  });
  std::optional<HeadBound> const bound = head_bound(dim, size_, deviation);
  if (!bound)
    throw Error(ErrorCode::kCorrupt, argument, "expected orthonormal directions, got others");
  bound_ = *bound;
  grouped_ = grouped(values_.data(), size_, dim, (size_ + kHeadGroup - 1) / kHeadGroup);
}

void Directions::project(float const* padded, double norm, float* head) const {
  std::fill(head, head + head_dim(), 0.0f);
  if (norm == 0.0) return;
  // The dot product is symmetric; the kernel needs padding on its query, here the vector.
  cpu::kernels().dot.float32(padded, values_.data(), size_, dim_, head);
  fill_rest(size_, norm, bound_, head);
}

void Directions::project_rows(float const* vectors, std::span<float const> inverse_norms,
                              float* heads) const {
  cpu::HeadKernels const& kernels = cpu::kernels().heads;
  std::size_t const n = inverse_norms.size();
  std::size_t const n_groups = grouped_.size() / (dim_ * kHeadGroup);
  auto const dots = std::make_unique_for_overwrite<float[]>(n * n_groups * kHeadGroup);
  kernels.products(vectors, n, dim_, cpu::head_piece(dim_), grouped_.data(), n_groups, dots.get());
  for (std::size_t r = 0; r < n; ++r) {
    float* const head = heads + r * head_dim();
    kernels.scale(dots.get() + r * n_groups * kHeadGroup, size_, inverse_norms[r], head);
    std::fill_n(head + size_, kRestElements, 0.0f);  // with these, most heads fill whole lanes
    double const length = std::sqrt(kernels.squares(head, head_dim()));
    double const rest = head_rest(length, bound_.deviation, bound_.row_projection);
    std::fill_n(head + size_, kRestElements,
                inverse_norms[r] == 0.0f ? 0.0f : rest_element(rest, 1.0));
  }
}

Int8Row Directions::quantize(float const* head, double norm, CodeBits bits,
                             std::int8_t* codes) const {
  if (bits == CodeBits::k4)
    return quantize_nibbles(cpu::kernels().heads, head_dim(), head, norm, codes);
  return quantize_row(head_dim(), [&](std::size_t i) { return head[i]; }, norm, codes);
}

}  // namespace hyrecall
