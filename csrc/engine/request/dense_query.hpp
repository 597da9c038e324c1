// Vectors as queries.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/pooled.hpp"

namespace hyrecall {

// A query row as the kernels want it: padded with +0 to a multiple of 32, with its inverse norm (0
// = missing). Points into a DenseQueries.
struct DenseQuery {
  std::span<float const> padded{};  // empty: the query has no vector
  float inverse_norm = 0.0f;
};

// The queries of an arm in one block of memory.
class DenseQueries {
 public:
  DenseQueries() = default;
  // All of them without a vector.
  DenseQueries(std::size_t n_queries, std::uint32_t dim);

  std::size_t size() const { return has_row_.size(); }
  std::uint32_t dim() const { return dim_; }
  std::size_t stride() const { return stride_; }             // floats from row to row
  float const* first_row() const { return values_.data(); }  // only of queries with a vector
  DenseQuery operator[](std::size_t query) const;

  // Room for the dim values of a query, which has a vector from now on; what comes after them is 0.
  float* room(std::size_t query);
  void set_inverse_norm(std::size_t query, float inverse_norm) {
    inverse_norms_[query] = inverse_norm;
  }

 private:
  std::uint32_t dim_ = 0;
  std::size_t stride_ = 0;
  Pooled<float> values_;  // [n_queries, stride]
  std::vector<float> inverse_norms_;
  std::vector<std::uint8_t> has_row_;
};

// Copies a query for each row of `values`, [n_queries, dim]; missing where `present` says 0 (empty:
// none is). Throws as checked_inverse_norm does.
std::shared_ptr<DenseQueries const> prepare_queries(float const* values, std::size_t n_queries,
                                                    std::uint32_t dim,
                                                    std::span<std::uint8_t const> present,
                                                    std::string const& argument, int threads);

// The inverse; throws if a norm leaves [2^-60, 2^60]. place: of the vector, for messages.
float checked_inverse_norm(double norm, std::string const& argument, std::string const& place);

}  // namespace hyrecall
