// What the best rows of the first answers add to the queries of an execution.
#include <string>

#include "core/error.hpp"
#include "core/parallel.hpp"
#include "engine/recall.hpp"

namespace hyrecall {

// Documents of the query's scope in an arm that hold each of these terms.
std::vector<std::int64_t> Execution::count_terms(std::size_t arm, std::size_t query,
                                                 std::span<std::string_view const> terms,
                                                 PostingScratch& scratch) const {
  LexicalRequest const& lexical = request_.lexical[arm];
  std::uint32_t const scope = request_.scopes_of(lexical.table)[query];
  LexicalQuery asked;
  for (std::string_view const term : terms)
    asked.leaves.emplace_back().terms.push_back(std::string(term));
  std::vector<std::int64_t> counts(terms.size(), 0);
  for (std::size_t s = 0; s < snapshot_.segments.size(); ++s) {
    std::vector<LeafPostings> found(terms.size());
    QueryOnSegment const own{&scopes_[scope][s], &asked, found};
    find_terms(*snapshot_.segments[s], lexical.column, {&own, 1}, scratch);
    for (std::size_t i = 0; i < terms.size(); ++i) counts[i] += found[i].doc_freq;
  }
  return counts;
}

SecondLook Execution::second_look(FirstRows const& rows, FeedbackParams const& params) const {
  require(rows.offsets.size() == request_.n_queries + 1, "rows of the execution's queries");
  SecondLook out;
  std::size_t const n_lexical = params.n_terms > 0 ? request_.lexical.size() : 0;
  std::size_t const n_dense = params.dense > 0.0 ? request_.dense.size() : 0;
  out.terms.assign(n_lexical, {});
  for (auto& arm : out.terms) arm.resize(request_.n_queries);
  for (std::size_t arm = 0; arm < n_dense; ++arm) {
    DenseRequest const& dense = request_.dense[arm];
    require(dense.guest == nullptr && dense.is_plain(), "queries of one vector, on the host");
    out.vectors.push_back({std::vector<float>(request_.n_queries * dense.queries->dim(), 0.0f),
                           std::vector<std::uint8_t>(request_.n_queries, 0),
                           std::vector<std::uint8_t>(request_.n_queries, 0)});
  }
  std::vector<PostingScratch> scratch(static_cast<std::size_t>(std::max(request_.threads, 1)));
  parallel_runs(request_.n_queries, kShortRun, request_.threads, [&](int worker, std::size_t q) {
    for (std::size_t i = 0; i < rows.n(q); ++i) require_authorised(q, rows.at(q, i));
    for (std::size_t arm = 0; arm < n_dense; ++arm) {
      DenseRequest const& dense = request_.dense[arm];
      DenseQuery const query = dense.query(q);
      if (query.inverse_norm == 0.0f) continue;
      MovedVectors& own = out.vectors[arm];
      std::size_t const dim = dense.queries->dim();
      std::span<float> const values(own.values.data() + q * dim, dim);
      std::copy_n(query.padded.begin(), dim, values.begin());
      own.present[q] = 1;
      own.moved[q] =
          move_query(snapshot_, dense.column, query, rows, q, params.dense, values) ? 1 : 0;
    }
    for (std::size_t arm = 0; arm < n_lexical; ++arm) {
      LexicalRequest const& lexical = request_.lexical[arm];
      auto const& text = lexical.queries[q];
      if (!text || text->kind != TextQuery::Kind::kText || queries_[arm][q]->leaves.empty())
        continue;
      double n_own = 0.0;
      for (Leaf const& leaf : queries_[arm][q]->leaves) n_own = n_own + leaf.multiplicity;
      TermShares const found = share_terms(snapshot_, lexical.column, rows, q);
      std::vector<std::string_view> const terms = most_shared(found);
      std::vector<std::int64_t> const counts =
          count_terms(arm, q, terms, scratch[static_cast<std::size_t>(worker)]);
      out.terms[arm][q] = choose_terms(found, terms, counts, (*statistics_)[arm][q].n_docs,
                                       lexical.bm25.variant, n_own, params);
    }
  });
  return out;
}

}  // namespace hyrecall
