// A vector as a query.
#pragma once

#include <cstdint>
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

// The inverse; throws if a norm leaves [2^-60, 2^60]. place: of the vector, for messages.
float checked_inverse_norm(double norm, std::string const& argument, std::string const& place);

}  // namespace hyrecall
