// Quantises a query of the dense arm for the first pass.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/dense/head.hpp"
#include "engine/request/request.hpp"
#include "kernels/int8_bound.hpp"

namespace hyrecall {

// A query in the form that the first pass reads.
struct QuantizedQuery {
  std::vector<std::int8_t> codes;  // [dim]; empty: the query is not scanned
  std::int32_t sum = 0;            // of the codes
  float scale = 0.0f;
  QueryBound bound{1.0f, 0.0f};
};
QuantizedQuery quantize_query(DenseQuery const& query, std::uint32_t dim);
// Quantises the query's head along these directions.
QuantizedQuery quantize_head(DenseQuery const& query, Directions const& directions);

}  // namespace hyrecall
