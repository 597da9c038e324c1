// A dense arm whose rows and queries have many vectors each (late interaction): a row's score is
// the sum, over the query's vectors, of the greatest cosine with one of the row's vectors. Exact,
// by docs/scoring.md.
//
// Source of the score: Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via
// Contextualized Late Interaction over BERT", SIGIR 2020.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "engine/dense/column.hpp"
#include "engine/request/request.hpp"
#include "engine/scope/audience.hpp"
#include "engine/top_k.hpp"

namespace hyrecall {

// Which vector of a row a query's vector met.
struct MaxSimPair {
  std::uint32_t vector;  // of the row, from 0
  float cosine;
};

class MaxSimQuery {
 public:
  // Without missing vectors; at least one.
  explicit MaxSimQuery(std::vector<DenseQuery> vectors) : vectors_(std::move(vectors)) {}

  std::span<DenseQuery const> vectors() const { return vectors_; }
  // Nothing for a row without a vector.
  std::optional<float> score(DenseColumn const& column, Row row) const;
  // A pair for each of the query's vectors; none for a row without a vector.
  std::vector<MaxSimPair> pairs(DenseColumn const& column, Row row) const;

 private:
  std::vector<DenseQuery> vectors_;
};

// Each query's best `depth` rows among those of its group that have a vector and pass the floor, by
// (score, seq). Empty for a query without a vector.
QueryLists scan_max_sim(Snapshot const& snapshot, BatchRequest const& request,
                        DenseRequest const& arm, Audience const& audience);

}  // namespace hyrecall
