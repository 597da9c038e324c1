// Rows of a tile whose sums lack leaves that were left out: their scores, from the forward view.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "engine/lexical/bm25.hpp"
#include "engine/lexical/leaf_cursor.hpp"
#include "engine/lexical/term_counts.hpp"

namespace hyrecall {

// Legal calls: begin() for a query on a column. Then, for each tile, clear(), add() for its rows in
// any order, and finish(). All are rows of the scope.
// Cost: a walk over the row's tokens, or a search in each list where that is shorter.
class PartialRows {
 public:
  void begin(Segment const& segment, std::size_t column, Bm25Query const& query,
             std::span<LeafPostings const> postings, std::span<LeafCursor const> leaves);
  void clear() { rows_.clear(); }
  void add(Row row) { rows_.push_back(row); }
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
  std::vector<Row> rows_;
  std::vector<float> scores_;
};

}  // namespace hyrecall
