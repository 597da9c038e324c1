#include "engine/dense/query.hpp"

#include <numeric>

#include "core/formulas.hpp"
#include "engine/dense/column.hpp"
#include "engine/request/reply.hpp"

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

float score_dense(Segment const& segment, DenseRequest const& arm, std::size_t query, Row row) {
  DenseColumn const& column = *segment.p.dense[arm.column];
  DenseQuery const q = arm.query(query);
  if (q.inverse_norm == 0.0f || !column.has(row)) return kNoScore;
  float score;
  column.score(q.padded.data(), q.inverse_norm, row, row + 1, &score);
  return score;
}

}  // namespace hyrecall
