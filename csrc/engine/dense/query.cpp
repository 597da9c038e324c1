#include "engine/dense/query.hpp"

#include <numeric>

#include "core/formulas.hpp"
#include "engine/dense/column.hpp"

namespace hyrecall {

QuantizedQuery quantize_query(DenseQuery const& query, std::uint32_t dim) {
  QuantizedQuery out;
  out.codes.resize(dim);
  float const* const values = query.padded.data();
  double const norm = row_norm(dim, [&](std::size_t i) { return static_cast<double>(values[i]); });
  Int8Row const made =
      quantize_row(dim, [&](std::size_t i) { return values[i]; }, norm, out.codes.data());
  out.sum = std::accumulate(out.codes.begin(), out.codes.end(), std::int32_t{0});
  out.scale = made.scale;
  out.bound = query_bound(FirstPassPlane::kInt8, dim, made.residual);
  return out;
}

}  // namespace hyrecall
