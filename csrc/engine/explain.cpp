// What explain() reads of one document of a reply, within the scope of its query, and the queries
// without a token.
#include "core/error.hpp"
#include "engine/dense/column.hpp"
#include "engine/recall.hpp"

namespace hyrecall {

void Execution::require_authorised(std::size_t query, DocRef doc) const {
  require(query < request_.n_queries && doc.segment < snapshot_.segments.size(),
          "a row of a reply");
  bool const is_seen = scopes_[request_.scope_of[query]][doc.segment].contains(doc.row) &&
                       snapshot_.segments[doc.segment]->live()[doc.row];
  require(is_seen, "a row in the query's scope");
}

std::vector<std::uint32_t> Execution::leaf_freqs(std::size_t arm, std::size_t query,
                                                 DocRef doc) const {
  require_authorised(query, doc);
  require(arm < postings_.size(), "a lexical arm");
  std::vector<std::uint32_t> out;
  for (LeafPostings const& leaf : postings_[arm].at(query, doc.segment))
    out.push_back(leaf.freq_of(doc.row));
  return out;
}

std::vector<std::pair<std::size_t, MaxSimPair>> Execution::vector_pairs(std::size_t arm,
                                                                        std::size_t query,
                                                                        DocRef doc) const {
  require_authorised(query, doc);
  require(arm < request_.dense.size() && request_.dense[arm].bundles != nullptr,
          "an arm of many vectors");
  DenseRequest const& own = request_.dense[arm];
  DenseColumn const& column = *snapshot_.segments[doc.segment]->segment().p.dense[own.column];
  std::size_t const begin = (*own.bundles)[own.begin + query];
  std::size_t const end = (*own.bundles)[own.begin + query + 1];
  std::vector<std::pair<std::size_t, MaxSimPair>> out;
  for (std::size_t i = begin; i < end; ++i) {
    DenseQuery const one = (*own.queries)[i];
    if (one.inverse_norm == 0.0f) continue;
    for (MaxSimPair const& met : MaxSimQuery({one}).pairs(column, doc.row))
      out.emplace_back(i - begin, met);
  }
  return out;
}

std::vector<SparsePair> Execution::sparse_pairs(std::size_t arm, std::size_t query,
                                                DocRef doc) const {
  require_authorised(query, doc);
  require(arm < request_.dense.size() && request_.dense[arm].sparse != nullptr,
          "an arm of sparse vectors");
  DenseRequest const& own = request_.dense[arm];
  SparseColumn const& column =
      *snapshot_.segments[doc.segment]->segment().p.dense[own.column]->sparse;
  std::vector<SparsePair> out;
  for (HeldTerm const& one : column.held((*own.sparse)[own.begin + query])) {
    float const weight = column.weight_of(one.number, doc.row);
    if (weight != 0.0f) out.push_back({std::string(column.terms[one.number]), one.weight, weight});
  }
  return out;
}

bool Execution::matches(std::size_t arm, std::size_t query, DocRef doc) const {
  require_authorised(query, doc);
  require(arm < postings_.size() && queries_[arm][query].has_value(), "a query of a lexical arm");
  std::span<LeafPostings const> const leaves = postings_[arm].at(query, doc.segment);
  return queries_[arm][query]->matches(
      [&](std::uint32_t leaf) { return leaves[leaf].freq_of(doc.row) > 0; });
}

bool Execution::excludes(std::size_t arm, std::size_t query, DocRef doc) const {
  if (matches(arm, query, doc) || !queries_[arm][query]->has_excluded) return false;
  std::span<LeafPostings const> const leaves = postings_[arm].at(query, doc.segment);
  return queries_[arm][query]->match.matches(
      [&](std::uint32_t leaf) { return leaves[leaf].freq_of(doc.row) > 0; }, false);
}

std::vector<std::pair<std::size_t, Refusal>> Execution::refused_queries(std::size_t arm) const {
  std::vector<std::pair<std::size_t, Refusal>> out;
  for (std::size_t q = 0; q < request_.n_queries; ++q) {
    Refusal const why = statistics_->at(arm)[q].refusal;
    if (why != Refusal::kNone) out.emplace_back(q, why);
  }
  return out;
}

std::vector<std::size_t> Execution::empty_queries(std::size_t arm) const {
  std::vector<std::size_t> empty;
  auto const& queries = queries_.at(arm);
  for (std::size_t q = 0; q < queries.size(); ++q) {
    if (queries[q] && queries[q]->leaves.empty()) empty.push_back(q);
  }
  return empty;
}

}  // namespace hyrecall
