// A vector as a query.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hyrecall {

// A query row as the kernels want it: padded with +0 to a multiple of 32, with its inverse norm (0
// = missing).
struct DenseQuery {
  std::vector<float> padded;
  float inverse_norm = 0.0f;
};
DenseQuery prepare_query(float const* values, std::uint32_t dim, std::string const& argument,
                         std::size_t query);

// A query for each row of `values`, [n_queries, dim]; missing where `present` says 0 (empty: none
// is). Throws as prepare_query does.
std::vector<DenseQuery> prepare_queries(float const* values, std::size_t n_queries,
                                        std::uint32_t dim, std::span<std::uint8_t const> present,
                                        std::string const& argument, int threads);

// The inverse; throws if a norm leaves [2^-60, 2^60]. place: of the vector, for messages.
float checked_inverse_norm(double norm, std::string const& argument, std::string const& place);

}  // namespace hyrecall
