// Scores rows of a tile whose sums lack the skipped leaves, from the forward view.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_cursor.hpp"
#include "engine/lexical/skipped_leaves.hpp"
#include "engine/lexical/term_counts.hpp"

namespace hyrecall {

// Legal calls: begin() for a query on a column. Then, for each tile, clear(), add() for its rows in
// any order, narrow() if wanted, and finish(). All must be rows of the scope.
// Cost: reading the row's tokens, or a search in each list if that is faster.
class PartialRows {
 public:
  // greatest: by place among the leaves, the leaf's greatest impact on any row.
  // Returns false if scoring a row would search too many lists: then add all leaves instead.
  bool begin(Segment const& segment, std::size_t column, Bm25Query const& query,
             std::span<LeafPostings const> postings, std::span<LeafCursor const> leaves,
             std::span<float const> greatest);
  void clear() {
    rows_.clear();
    sums_.clear();
  }
  // sum: of the leaves that were not skipped.
  void add(Row row, float sum) {
    rows_.push_back(row);
    sums_.push_back(sum);
  }
  // Drops rows that cannot reach the needed sum, by the bits of frequent terms among the skipped
  // leaves. Returns how many bits it looked up.
  std::size_t narrow(SkippedLeaves const& skipped);
  // Scores the rows canonically.
  void finish();
  std::span<Row const> rows() const { return rows_; }
  std::span<float const> scores() const { return scores_; }

 private:
  void prefetch(std::size_t i) const;
  float score(Row row);

  Segment const* segment_ = nullptr;
  std::size_t number_ = 0;  // of the column
  LexicalColumn const* column_ = nullptr;
  Bm25Query const* query_ = nullptr;
  std::span<LeafPostings const> postings_;
  std::vector<float const*> tables_;  // impacts by leaf; null: no table
  std::vector<TermId> terms_;         // by leaf; kNone32 if the scope does not hold it
  TermCounts counts_;
  bool has_terms_alone_ = true;  // no phrase, no prefix: the forward view has all leaves
  // The most that a leaf of `leaves` may add to a row, by the bits of its term; null: no bits.
  struct Bound {
    FrequencyBits const* bits;
    std::array<float, FrequencyBits::kMost + 1> impacts;
  };
  std::vector<Bound> bounds_;  // by place among the leaves of the scope
  std::vector<Row> rows_;
  std::vector<float> sums_;
  std::vector<float> scores_;
};

}  // namespace hyrecall
