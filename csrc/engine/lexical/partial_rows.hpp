// Rows of a tile whose sums lack leaves that were left out: their scores, from the forward view.
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
// any order, narrow() if wanted, and finish(). All are rows of the scope.
// Cost: a walk over the row's tokens, or a search in each list where that is shorter.
class PartialRows {
 public:
  // greatest: by place among the leaves, what it may add to any row.
  void begin(Segment const& segment, std::size_t column, Bm25Query const& query,
             std::span<LeafPostings const> postings, std::span<LeafCursor const> leaves,
             std::span<float const> greatest);
  void clear() {
    rows_.clear();
    sums_.clear();
  }
  // sum: of the leaves that were not left out.
  void add(Row row, float sum) {
    rows_.push_back(row);
    sums_.push_back(sum);
  }
  // Drops rows that cannot reach a sum, by what frequent terms among those left out may add.
  // Gives how often it asked for the bits of a row.
  std::size_t narrow(SkippedLeaves const& skipped);
  // Scores the rows as the law has it.
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
  std::vector<float const*> tables_;  // of impacts by leaf; null: there is none
  std::vector<TermId> terms_;         // by leaf; kNone32 where the scope does not hold it
  TermCounts counts_;
  bool has_terms_alone_ = true;  // no phrase, no prefix: the forward view has all leaves
  // What a leaf of `leaves` may add to a row, by the bits of its term; null: there are none.
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
