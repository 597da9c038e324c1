// The lexical arm: BM25 of a query's leaves, exhaustively, term after term over windows of rows.
#pragma once

#include <span>
#include <vector>

#include "engine/postings.hpp"
#include "engine/request.hpp"
#include "engine/topk.hpp"

namespace hyrecall {

// One query in one arm, with its statistics: what a score needs beside the document.
class Bm25Query {
 public:
  Bm25Query(Bm25 const& params, LexicalQuery const& query, QueryStatistics const& statistics);

  LexicalQuery const& query() const { return *query_; }
  float weight(std::size_t leaf) const { return weights_[leaf]; }
  float length_norm(std::uint32_t doc_length) const {
    return doc_length < norms_.size() ? norms_[doc_length]
                                      : bm25_length_norm(params_, doc_length, mean_);
  }
  // Fills the table that length_norm() reads first; pays from some hundred postings on.
  void tabulate_norms(std::uint32_t max_length);
  // An upper bound of the leaf's impact in a block.
  float bound(std::size_t leaf, std::span<FrontierPoint const> frontier) const;

 private:
  Bm25 params_;
  LexicalQuery const* query_;
  double mean_;
  std::vector<float> weights_;  // [n_leaves]
  std::vector<float> norms_;
};

// Working memory of one thread; all zero between calls.
struct LexicalScratch {
  std::vector<float> scores;
  std::vector<std::uint64_t> present;  // bits of the leaves a row holds, for typed queries
};

// Offers every selected row that matches and passes the floor.
void scan_lexical(SegmentView const& view, std::uint32_t segment, LexicalRequest const& arm,
                  Bm25Query& query, std::span<LeafPostings const> postings, ScopeRows const& scope,
                  std::span<SelectedTile const> tiles, LexicalScratch& scratch, TopK& best);

// BM25 of one row: 0 where nothing matches, kNoScore where there is no text.
float score_lexical(Segment const& segment, std::size_t column, Bm25Query const& query,
                    std::span<LeafPostings const> postings, Row row);

}  // namespace hyrecall
