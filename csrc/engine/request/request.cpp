#include "engine/request/request.hpp"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/by_query.hpp"
#include "core/error.hpp"
#include "engine/segment/cells.hpp"

namespace hyrecall {
namespace {

template <typename T>
std::vector<T> part_of(std::vector<T> const& all, std::size_t begin, std::size_t end) {
  return {all.begin() + static_cast<std::ptrdiff_t>(begin),
          all.begin() + static_cast<std::ptrdiff_t>(end)};
}

// What is used of `all`: numbers that point into it are made to point into that; `none` stays.
template <typename T>
class Used {
 public:
  explicit Used(std::vector<T> const& all) : all_(all) {}

  void renumber(std::vector<std::uint32_t>& numbers) {
    for (std::uint32_t& number : numbers) {
      if (number == kNone32) continue;
      auto const [at, is_new] = place_.emplace(number, static_cast<std::uint32_t>(used_.size()));
      if (is_new) used_.push_back(all_[number]);
      number = at->second;
    }
  }
  std::vector<T> take() { return std::move(used_); }

 private:
  std::vector<T> const& all_;
  std::vector<T> used_;
  std::unordered_map<std::uint32_t, std::uint32_t> place_;
};

}  // namespace

std::vector<std::vector<ListedDoc>> listed_by_query(std::size_t n_queries,
                                                    std::span<std::int64_t const> offsets,
                                                    std::span<std::uint32_t const> segment,
                                                    std::span<Row const> row,
                                                    std::span<float const> score) {
  require(segment.size() == row.size(), "one row a document");
  require(score.empty() || score.size() == row.size(), "one score a document");
  ByQuery<Row> const rows(n_queries, offsets, row);
  std::vector<std::vector<ListedDoc>> out(n_queries);
  for (std::size_t q = 0; q < n_queries; ++q) {
    std::size_t const end = rows.begin(q) + rows[q].size();
    out[q].reserve(rows[q].size());
    for (std::size_t i = rows.begin(q); i < end; ++i)
      out[q].push_back({{segment[i], row[i]}, score.empty() ? 0.0f : score[i]});
  }
  return out;
}

void BatchRequest::require_open() const {
  require(!is_read, "a request that no execution has taken");
}

void BatchRequest::require_table(std::uint32_t table) const {
  require((table == kAllTables) == tables.empty(), "a table, where scopes are divided");
  require(tables.empty() || table < tables.size(), "a known table");
}

void BatchRequest::set_filters(std::vector<std::shared_ptr<FilterProgram const>> distinct,
                               std::span<std::uint32_t const> numbers) {
  require_open();
  if (numbers.size() != n_queries) throw Error(ErrorCode::kShape, "filter", "expected one a query");
  for (std::uint32_t const number : numbers)
    require(number == kNone32 || number < distinct.size(), "a known filter");
  filters = std::move(distinct);
  filter_of.assign(numbers.begin(), numbers.end());
}

std::vector<DenseQuery> DenseRequest::bundle(std::size_t q) const {
  std::vector<DenseQuery> out;
  for (std::size_t i = (*bundles)[begin + q]; i < (*bundles)[begin + q + 1]; ++i) {
    DenseQuery const one = (*queries)[i];
    if (one.inverse_norm != 0.0f) out.push_back(one);
  }
  return out;
}

bool DenseRequest::has(std::size_t q) const {
  if (sparse != nullptr) return !(*sparse)[begin + q].empty();
  return bundles != nullptr ? !bundle(q).empty() : query(q).inverse_norm != 0.0f;
}

void BatchRequest::add(LexicalRequest arm) {
  require_open();
  require_table(arm.table);
  require(arm.queries.size() == n_queries, "one text a query");
  lexical.push_back(std::move(arm));
}

void BatchRequest::add(DenseRequest arm) {
  require_open();
  require_table(arm.table);
  int const n_kinds = (arm.guest != nullptr) + (arm.queries != nullptr) + (arm.sparse != nullptr);
  require(n_kinds == 1, "queries of one kind");
  require(!arm.completes_only || !arm.is_plain(), "an arm of many vectors, or sparse, to complete");
  if (arm.bundles != nullptr) {
    std::vector<std::size_t> const& bundles = *arm.bundles;
    require(arm.guest == nullptr && bundles.size() == n_queries + 1 && bundles.front() == 0 &&
                bundles.back() == arm.queries->size() &&
                std::is_sorted(bundles.begin(), bundles.end()),
            "a bundle of vectors a query");
  } else if (arm.sparse != nullptr) {
    require(arm.sparse->size() == n_queries, "one vector a query");
  } else {
    std::size_t const n = arm.guest != nullptr ? arm.guest->n_rows() : arm.queries->size();
    require(n == n_queries, "one vector a query");
  }
  dense.push_back(std::move(arm));
}

void BatchRequest::add(ListedRequest arm) {
  require_open();
  require(arm.queries.size() == n_queries, "a list a query");
  for (auto const& docs : arm.queries) {
    for (ListedDoc const& one : docs) require(std::isfinite(one.score), "finite scores");
  }
  listed.push_back(std::move(arm));
}

void BatchRequest::set_fusion(Fusion how, Floor<double> floor, bool normalized) {
  require_open();
  require(how.weights.size() == n_arms(), "one weight an arm");
  require(how.scales.size() == n_arms(), "one scale an arm");
  std::size_t const n_tables = std::max<std::size_t>(tables.size(), 1);
  require(how.kind != Fusion::Kind::kNone || n_arms() == n_tables, "a fusion for several arms");
  require(lexical.size() % n_tables == 0 && dense.size() % n_tables == 0,
          "as many arms in each table");
  fusion = std::move(how);
  min_fused = floor;
  normalize = normalized;
}

void BatchRequest::set_evidence(Evidence how) {
  require_open();
  require(how.n_distances() <= kMostDistances, "at most 8 distances");
  auto const is_weight = [](double w) { return std::isfinite(w) && w >= 0.0; };
  bool const fits = std::all_of(how.neighbours.begin(), how.neighbours.end(), is_weight) &&
                    is_weight(how.thread) && is_weight(how.length);
  require(fits, "weights of at least 0");
  if (how.prior) {
    Prior const& prior = *how.prior;
    bool const is_known =
        prior.addends.size() == std::max(prior.texts.size(), prior.codes.size()) &&
        (prior.texts.empty() || prior.codes.empty()) &&
        std::all_of(prior.addends.begin(), prior.addends.end(),
                    [](double addend) { return std::isfinite(addend); });
    require(is_known, "a finite addend for each value");
  }
  require(!normalize && fusion.kind != Fusion::Kind::kNone, "evidence of a fused score");
  evidence = std::move(how);
}

void BatchRequest::divide(std::size_t part, std::span<std::string const> values) {
  require_open();
  require(n_arms() == 0, "a request without arms");
  std::size_t const n_scopes = scopes.size(), n_tables = values.size() + 1;
  tables.assign(n_tables, std::vector<std::uint32_t>(n_queries));
  for (std::size_t scope = 0; scope < n_scopes; ++scope) {
    std::vector<std::shared_ptr<Scope>> parts(n_tables);
    for (std::shared_ptr<Scope>& one : parts) one = std::make_shared<Scope>();
    for (std::string const& cell : scopes[scope]->cells) {
      auto const at = std::find(values.begin(), values.end(), cell_part(cell, part));
      parts[static_cast<std::size_t>(at - values.begin())]->cells.push_back(cell);
    }
    scopes.insert(scopes.end(), parts.begin(), parts.end());
  }
  for (std::size_t table = 0; table < n_tables; ++table) {
    for (std::size_t query = 0; query < n_queries; ++query) {
      tables[table][query] =
          static_cast<std::uint32_t>(n_scopes + scope_of[query] * n_tables + table);
    }
  }
}

void BatchRequest::release_guests() const {
  for (DenseRequest const& arm : dense) {
    if (arm.guest != nullptr) arm.guest->release();
  }
}

BatchRequest BatchRequest::slice(std::size_t begin, std::size_t end) const {
  BatchRequest out;
  out.n_queries = end - begin;
  out.first_query = first_query + begin;
  out.scope_of = part_of(scope_of, begin, end);
  Used used_scopes(scopes);
  used_scopes.renumber(out.scope_of);
  for (std::vector<std::uint32_t> const& table : tables) {
    out.tables.push_back(part_of(table, begin, end));
    used_scopes.renumber(out.tables.back());
  }
  out.scopes = used_scopes.take();
  out.filter_of = part_of(filter_of, begin, end);
  Used used_filters(filters);
  used_filters.renumber(out.filter_of);
  out.filters = used_filters.take();
  for (LexicalRequest const& arm : lexical) {
    out.lexical.push_back(
        {arm.column, arm.name, arm.bm25, arm.analyzer, part_of(arm.queries, begin, end), arm.floor,
         arm.table,
         arm.refused.empty() ? std::vector<Refusal>{} : part_of(arm.refused, begin, end)});
  }
  for (DenseRequest const& arm : dense) {
    out.dense.push_back(arm);
    out.dense.back().begin += begin;
  }
  for (ListedRequest const& arm : listed)
    out.listed.push_back({arm.name, part_of(arm.queries, begin, end), arm.floor});
  out.depth = depth;
  out.fusion = fusion;
  out.min_fused = min_fused;
  out.normalize = normalize;
  out.evidence = evidence;
  out.limit = limit;
  out.offset = offset;
  out.threads = threads;
  out.host_postings = host_postings;
  out.settings = settings;
  return out;
}

}  // namespace hyrecall
