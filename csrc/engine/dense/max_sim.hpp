// A dense arm whose rows and queries have many vectors each (late interaction): a row's score is
// the sum, over the query's vectors, of the greatest cosine with one of the row's vectors. Exact,
// by docs/scoring.md.
//
// Source of the score: Khattab and Zaharia, "ColBERT: Efficient and Effective Passage Search via
// Contextualized Late Interaction over BERT", SIGIR 2020.
#pragma once

#include <memory>
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

// A row of a column.
struct MaxSimRow {
  DenseColumn const* column;
  Row row;
};

class MaxSimPanels;

class MaxSimQuery {
 public:
  // Without missing vectors; at least one.
  explicit MaxSimQuery(std::vector<DenseQuery> vectors) : vectors_(std::move(vectors)) {}
  // Of an arm, where the query has a vector. It reads planes, if there are any and the request
  // allows it.
  MaxSimQuery(Snapshot const& snapshot, BatchRequest const& request, DenseRequest const& arm,
              std::size_t query);

  // From now on planes of columns of so many dimensions are read, where there are any.
  void read_planes(std::uint32_t dim);
  std::span<DenseQuery const> vectors() const { return vectors_; }
  // Null: no plane is read.
  MaxSimPanels const* panels() const { return panels_.get(); }
  bool reads(DenseColumn const& column) const {
    return panels_ != nullptr && !column.plane.empty();
  }
  // scores[i] of rows[i]; kNoScore of a row without a vector.
  void score(std::span<MaxSimRow const> rows, int threads, float* scores) const;
  // A pair for each of the query's vectors; none for a row without a vector.
  std::vector<MaxSimPair> pairs(DenseColumn const& column, Row row) const;

 private:
  void score_run(std::span<MaxSimRow const> rows, float* scores) const;  // by one thread

  std::vector<DenseQuery> vectors_;
  std::shared_ptr<MaxSimPanels const> panels_;
};

// Each query's best `depth` rows among those of its group that have a vector and pass the floor, by
// (score, seq). Empty for a query without a vector.
QueryLists scan_max_sim(Snapshot const& snapshot, BatchRequest const& request,
                        DenseRequest const& arm, Audience const& audience);

}  // namespace hyrecall
