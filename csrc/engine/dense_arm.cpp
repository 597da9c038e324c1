#include "engine/dense_arm.hpp"

namespace hyrecall {

float score_dense(Segment const& segment, DenseRequest const& arm, std::size_t query, Row row) {
  DenseColumn const& column = *segment.p.dense[arm.column];
  DenseQuery const& q = arm.query(query);
  if (q.inverse_norm == 0.0f || !column.has(row)) return kNoScore;
  float score;
  column.score(q.padded.data(), q.inverse_norm, row, row + 1, &score);
  return score;
}

}  // namespace hyrecall
