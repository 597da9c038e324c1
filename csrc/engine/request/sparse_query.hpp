// Sparse vectors as queries: terms and their weights.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/buffer.hpp"

namespace hyrecall {

// No weight is larger, so that no sum of products passes what a float32 holds; what is smaller than
// the least counts as 0, so that no product is rounded to 0.
inline constexpr float kMostSparseWeight = 0x1p40f;
inline constexpr float kLeastSparseWeight = 0x1p-60f;

// Whether the weight counts. Throws, for `argument`, if it is below 0, too large or NaN.
bool counts_as_weight(float weight, std::string const& argument, std::string_view term,
                      std::string const& place);

struct SparseTerm {
  std::string_view term;
  float weight;
};

// The queries of an arm. Each has its terms in the order of their bytes, none twice.
class SparseQueries {
 public:
  // Query q has the terms numbers[i] with weights[i], in any order, for i from begins[q] to
  // begins[q + 1]. Terms without weight are dropped.
  SparseQueries(Strings terms, std::span<std::int64_t const> begins,
                std::span<std::uint32_t const> numbers, std::span<float const> weights,
                std::string const& argument);

  std::size_t size() const { return begins_.size() - 1; }
  std::span<SparseTerm const> operator[](std::size_t query) const {
    return std::span(found_).subspan(begins_[query], begins_[query + 1] - begins_[query]);
  }

 private:
  Strings terms_;
  std::vector<std::size_t> begins_{0};
  std::vector<SparseTerm> found_;
};

}  // namespace hyrecall
