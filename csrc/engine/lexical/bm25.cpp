#include "engine/lexical/bm25.hpp"

#include "engine/lexical/column.hpp"
#include "engine/request/reply.hpp"

namespace hyrecall {
namespace {

// term_freq / (term_freq + norm) > 2^-55 (norm <= k1 x n_docs), so no impact of such a weight is 0.
constexpr float kPositiveWeight = 0x1p-60f;

// Reading a posting takes a few ns, searching a row in a list some tens.
constexpr std::size_t kPostingsASearch = 8;

}  // namespace

Bm25 for_scope(Bm25 const& params, QueryStatistics const& statistics) {
  Bm25 out = params;
  out.b = out.b_mixed = bm25_b(
      params, length_share(statistics.n_docs, statistics.total_length, statistics.squared_length));
  return out;
}

Bm25Query::Bm25Query(Bm25 const& params, LexicalQuery const& query,
                     QueryStatistics const& statistics)
    : params_(params),
      query_(&query),
      scale_{mean_doc_length(statistics.n_docs, statistics.total_length),
             for_scope(params, statistics).b} {
  weights_.reserve(query.leaves.size());
  for (std::size_t i = 0; i < query.leaves.size(); ++i) {
    double const idf = bm25_idf(params.variant, statistics.n_docs, statistics.doc_freqs[i]);
    weights_.push_back(bm25_weight(params, idf, query.leaves[i].multiplicity));
    if (params.variant == Bm25Variant::kPlus)
      shifts_.push_back(bm25_shift(params, idf, query.leaves[i].multiplicity));
    if (statistics.doc_freqs[i] > 0 && !(weights_.back() >= kPositiveWeight)) is_positive_ = false;
  }
}

float Bm25Query::impact(std::size_t leaf, float term_freq, float length_norm) const {
  float value = 0.0f;
  with_impact(leaf, [&](auto impact_of) { value = impact_of(term_freq, length_norm); });
  return value;
}

float score_lexical(Segment const& segment, std::size_t column, Bm25Query const& query,
                    std::span<LeafPostings const> postings, Row row) {
  LexicalColumn const& lexical = *segment.p.lexical[column];
  if (!lexical.has(row)) return kNoScore;
  float const norm = query.length_norm(lexical.doc_length(row));
  float score = 0.0f;
  bool holds_any = false;
  for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
    std::uint32_t const freq = postings[leaf].freq_of(row);
    if (freq == 0) continue;
    score += query.impact(leaf, static_cast<float>(freq), norm);
    holds_any = true;
  }
  if (holds_any && !query.query().is_bag) {
    MatchNode const& match = query.query().match;
    auto const present = [&](std::uint32_t leaf) { return postings[leaf].freq_of(row) > 0; };
    if (!match.matches(present)) return match.matches(present, false) ? kNoScore : 0.0f;
  }
  return score;
}

void score_lexical_rows(Segment const& segment, std::size_t column, Bm25Query const& query,
                        std::span<LeafPostings const> postings, std::span<Row const> rows,
                        std::span<float> scores) {
  if (!query.query().is_bag) {
    for (std::size_t i = 0; i < rows.size(); ++i)
      scores[i] = score_lexical(segment, column, query, postings, rows[i]);
    return;
  }
  LexicalColumn const& lexical = *segment.p.lexical[column];
  std::vector<float> norms(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    bool const has_text = lexical.has(rows[i]);
    scores[i] = has_text ? 0.0f : kNoScore;
    if (has_text) norms[i] = query.length_norm(lexical.doc_length(rows[i]));
  }
  for (std::size_t leaf = 0; leaf < postings.size(); ++leaf) {
    LeafPostings const& found = postings[leaf];
    if (found.begin == found.end) continue;
    query.with_impact(leaf, [&](auto impact_of) {
      if (found.n_in_scope() > kPostingsASearch * rows.size()) {
        found.list.for_rows(rows, [&](std::size_t i, std::uint32_t freq) {
          scores[i] += impact_of(static_cast<float>(freq), norms[i]);
        });
        return;
      }
      std::size_t at = 0;
      found.list.for_each(found.begin, found.end, [&](Row row, std::uint32_t freq) {
        while (at < rows.size() && rows[at] < row) ++at;
        if (at < rows.size() && rows[at] == row)
          scores[at] += impact_of(static_cast<float>(freq), norms[at]);
      });
    });
  }
}

}  // namespace hyrecall
