#include "engine/evidence/feedback.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "engine/dense/column.hpp"
#include "engine/lexical/column.hpp"

namespace hyrecall {
namespace {

// The least boost that a query may have.
constexpr double kLeastBoost = 0x1p-20;

struct WorthyTerm {
  std::string_view term;
  double worth;
};

}  // namespace

bool move_query(Snapshot const& snapshot, std::size_t column, DenseQuery query,
                FirstRows const& rows, std::size_t number, double weight, std::span<float> out) {
  std::vector<double> sums(out.size(), 0.0);
  std::vector<float> values(out.size());
  std::size_t n_rows = 0;
  for (std::size_t i = 0; i < rows.n(number); ++i) {
    DocRef const doc = rows.at(number, i);
    DenseColumn const& dense = *snapshot.segments[doc.segment]->segment().p.dense[column];
    if (!dense.has(doc.row)) continue;
    ++n_rows;
    dense.widen(doc.row, values.data());
    float const inverse = dense.inverse_norms[doc.row];
    for (std::size_t d = 0; d < sums.size(); ++d)
      sums[d] = sums[d] + unit_row_value(values[d], inverse);
  }
  if (n_rows == 0) return false;
  auto const n = static_cast<double>(n_rows);
  for (std::size_t d = 0; d < sums.size(); ++d)
    values[d] = rocchio_value(query.padded[d], query.inverse_norm, sums[d], n, weight);
  double const norm =
      row_norm(values.size(), [&values](std::size_t d) { return static_cast<double>(values[d]); });
  if (!(norm >= 0x1p-20)) return false;
  std::copy(values.begin(), values.end(), out.begin());
  return true;
}

TermShares share_terms(Snapshot const& snapshot, std::size_t column, FirstRows const& rows,
                       std::size_t number) {
  TermShares out;
  std::vector<TermId> terms;
  for (std::size_t i = 0; i < rows.n(number); ++i) {
    DocRef const doc = rows.at(number, i);
    LexicalColumn const& lexical = *snapshot.segments[doc.segment]->segment().p.lexical[column];
    if (!lexical.has(doc.row)) continue;
    ++out.n_rows;
    terms.clear();
    lexical.for_each_token(doc.row, [&](TermId term, std::uint32_t) { terms.push_back(term); });
    std::sort(terms.begin(), terms.end());
    for (std::size_t begin = 0; begin < terms.size();) {
      std::size_t end = begin + 1;
      while (end < terms.size() && terms[end] == terms[begin]) ++end;
      double& sum = out.shares[lexical.parts().terms[terms[begin]]];
      sum = sum + term_share(static_cast<std::uint32_t>(end - begin), lexical.doc_length(doc.row));
      begin = end;
    }
  }
  return out;
}

std::vector<std::string_view> most_shared(TermShares const& found) {
  std::vector<std::pair<double, std::string_view>> by_share;
  by_share.reserve(found.shares.size());
  for (auto const& [term, share] : found.shares) by_share.emplace_back(-share, term);
  if (by_share.size() > kMostSharedTerms) {
    auto const end = by_share.begin() + kMostSharedTerms;
    std::nth_element(by_share.begin(), end, by_share.end());
    by_share.erase(end, by_share.end());
  }
  std::vector<std::string_view> out;
  for (auto const& [share, term] : by_share) out.push_back(term);
  std::sort(out.begin(), out.end());
  return out;
}

std::vector<TextQuery::AddedTerm> choose_terms(TermShares const& found,
                                               std::span<std::string_view const> terms,
                                               std::span<std::int64_t const> counts,
                                               std::int64_t n_docs, Bm25Variant variant,
                                               double n_own, FeedbackParams const& params) {
  std::vector<WorthyTerm> worthy;
  auto const n_rows = static_cast<double>(found.n_rows);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (counts[i] < 2) continue;  // it would lift the row that it comes from, and no other
    double const idf = bm25_idf(variant, n_docs, counts[i]);
    double const worth = term_worth(found.shares.at(terms[i]), n_rows, idf);
    if (worth > 0.0) worthy.push_back({terms[i], worth});  // Robertson's idf can be negative
  }
  std::sort(worthy.begin(), worthy.end(), [](WorthyTerm const& a, WorthyTerm const& b) {
    return a.worth != b.worth ? a.worth > b.worth : a.term < b.term;
  });
  if (worthy.size() > params.n_terms) worthy.resize(params.n_terms);
  double total = 0.0;
  for (WorthyTerm const& one : worthy) total = total + one.worth;
  std::vector<TextQuery::AddedTerm> out;
  for (WorthyTerm const& one : worthy) {
    double const boost = added_boost(params.lexical, n_own, one.worth, total);
    if (boost >= kLeastBoost) out.push_back({std::string(one.term), boost});
  }
  return out;
}

BatchRequest ask_again(BatchRequest const& request, SecondLook look) {
  require(look.vectors.empty() || look.vectors.size() == request.dense.size(), "all dense arms");
  require(look.terms.empty() || look.terms.size() == request.lexical.size(), "all lexical arms");
  BatchRequest out = request;
  out.is_read = false;
  for (std::size_t arm = 0; arm < look.vectors.size(); ++arm) {
    MovedVectors const& own = look.vectors[arm];
    DenseRequest& dense = out.dense[arm];
    require(dense.guest == nullptr && dense.begin == 0, "vectors of the whole request");
    dense.queries = prepare_queries(own.values.data(), request.n_queries, dense.queries->dim(),
                                    own.present, dense.name, request.threads);
  }
  for (std::size_t arm = 0; arm < look.terms.size(); ++arm) {
    require(look.terms[arm].size() == request.n_queries, "terms for each query");
    for (std::size_t q = 0; q < request.n_queries; ++q) {
      auto& added = look.terms[arm][q];
      if (added.empty()) continue;
      auto& query = out.lexical[arm].queries[q];
      require(query && query->kind == TextQuery::Kind::kText, "terms for plain texts");
      query->added = std::move(added);
    }
  }
  return out;
}

}  // namespace hyrecall
