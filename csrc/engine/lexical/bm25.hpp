// BM25: the impact of each leaf of a query on a document, and the score of one row.
#pragma once

#include <span>
#include <vector>

#include "engine/lexical/leaf_postings.hpp"
#include "engine/request/reply.hpp"
#include "engine/request/request.hpp"

namespace hyrecall {

// The constants with b and b_mixed set to the b of a scope.
Bm25 for_scope(Bm25 const& params, QueryStatistics const& statistics);

// One query in one arm, with its statistics: all inputs of a score except the document.
class Bm25Query {
 public:
  Bm25Query(Bm25 const& params, LexicalQuery const& query, QueryStatistics const& statistics);

  LexicalQuery const& query() const { return *query_; }
  float weight(std::size_t leaf) const { return weights_[leaf]; }
  float shift(std::size_t leaf) const { return shifts_.empty() ? 0.0f : shifts_[leaf]; }
  // Whether every leaf has a positive impact on every document that holds it. Robertson's idf is
  // negative for a term that most documents hold, ATIRE's is 0 for a term that all hold. Then a
  // match may have any score, no bound holds, and the scan keeps matches beside the scores.
  bool is_positive() const { return is_positive_; }
  // Calls `use` with a function (term_freq, length_norm) -> impact of the leaf. The BM25 variant is
  // chosen here, once, and not in the loop over postings.
  template <typename F>
  void with_impact(std::size_t leaf, F&& use) const;
  float impact(std::size_t leaf, float term_freq, float length_norm) const;
  float length_norm(std::uint32_t doc_length) const {
    return bm25_length_norm(params_, doc_length, scale_);
  }
  // All inputs of length_norm() except the length.
  struct NormParams {
    Bm25Variant variant;
    double k1;
    double b;
    double mean;
    friend bool operator==(NormParams const&, NormParams const&) = default;
  };
  NormParams norm_params() const { return {params_.variant, params_.k1, scale_.b, scale_.mean}; }
  LengthScale scale() const { return scale_; }
  // A lower bound of the leaf's impact on documents up to a length; only where is_positive().
  float least_impact(std::size_t leaf, std::uint32_t max_length) const {
    return impact(leaf, 1.0f, length_norm(max_length)) / kBoundSlack;
  }

 private:
  Bm25 params_;
  LexicalQuery const* query_;
  LengthScale scale_;
  bool is_positive_ = true;
  SmallVector<float, 8> weights_;  // [n_leaves]
  std::vector<float> shifts_;      // [n_leaves] for BM25+; else empty
};

template <typename F>
void Bm25Query::with_impact(std::size_t leaf, F&& use) const {
  float const weight = weights_[leaf];
  if (params_.variant == Bm25Variant::kPlus) {
    float const shift = shifts_[leaf];
    use([=](float tf, float norm) { return bm25_plus_impact(weight, shift, tf, norm); });
  } else if (params_.variant == Bm25Variant::kLong) {
    auto const k1 = static_cast<float>(params_.k1);
    auto const delta = static_cast<float>(params_.delta);
    use([=](float tf, float norm) { return bm25_long_impact(weight, tf, norm, k1, delta); });
  } else {
    use([=](float tf, float norm) { return bm25_impact(weight, tf, norm); });
  }
}

// BM25 of one row: 0 if no leaf matches, kNoScore if the row has no text.
float score_lexical(Segment const& segment, std::size_t column, Bm25Query const& query,
                    std::span<LeafPostings const> postings, Row row);

// The same for several rows of the scope, ascending. Merges a list with the rows if that is faster
// than searching each row in it.
void score_lexical_rows(Segment const& segment, std::size_t column, Bm25Query const& query,
                        std::span<LeafPostings const> postings, std::span<Row const> rows,
                        std::span<float> scores);

}  // namespace hyrecall
