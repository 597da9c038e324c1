#include "engine/dense/query.hpp"

#include <numeric>

#include "core/formulas.hpp"
#include "engine/dense/column.hpp"

namespace hyrecall {

namespace {

double norm_of(float const* values, std::uint32_t dim) {
  return row_norm(dim, [&](std::size_t i) { return static_cast<double>(values[i]); });
}

std::int32_t sum_of(std::vector<std::int8_t> const& codes) {
  return std::accumulate(codes.begin(), codes.end(), std::int32_t{0});
}

}  // namespace

QuantizedQuery quantize_query(DenseQuery const& query, std::uint32_t dim) {
  QuantizedQuery out;
  out.codes.resize(dim);
  float const* const values = query.padded.data();
  Int8Row const made = quantize_row(
      dim, [&](std::size_t i) { return values[i]; }, norm_of(values, dim), out.codes.data());
  out.sum = sum_of(out.codes);
  out.scale = made.scale;
  out.bound = query_bound(FirstPassPlane::kInt8, dim, made.residual);
  return out;
}

QuantizedQuery quantize_head(DenseQuery const& query, Directions const& directions) {
  QuantizedQuery out;
  out.codes.resize(directions.head_dim());
  double const norm = norm_of(query.padded.data(), directions.dim());
  std::vector<float> head(directions.head_dim());
  directions.project(query.padded.data(), norm, head.data());
  Int8Row const made = directions.quantize(head.data(), norm, CodeBits::k8, out.codes.data());
  out.sum = sum_of(out.codes);
  out.scale = made.scale;
  out.bound = head_query_bound(directions.dim(), made.residual, directions.bound());
  return out;
}

}  // namespace hyrecall
