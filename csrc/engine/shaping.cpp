#include "engine/shaping.hpp"

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/formulas.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

// Runs `body(query, begin, end)` for every query and joins what each returns, in query order.
template <typename Result, typename Body>
std::vector<Result> per_query(PoolView const& pool, int threads, Body const& body) {
  std::vector<Result> results(pool.n_queries());
  parallel_for(results.size(), threads, [&](int, std::size_t q) {
    results[q] = body(q, static_cast<std::size_t>(pool.offsets[q]),
                      static_cast<std::size_t>(pool.offsets[q + 1]));
  });
  return results;
}

template <typename T>
void append(std::vector<T>& to, std::vector<T> const& from) {
  to.insert(to.end(), from.begin(), from.end());
}

void append(Selected& to, std::vector<std::int64_t> const& entries) {
  append(to.entries, entries);
  to.offsets.push_back(static_cast<std::int64_t>(to.entries.size()));
}

// The rows of one query's pool, and the cosine of any two. A row is widened once, when it first
// serves as query.
class Vectors {
 public:
  Vectors(Snapshot const& snapshot, PoolView const& pool, std::size_t column, std::size_t begin,
          std::size_t end)
      : widened_(end - begin) {
    for (std::size_t at = begin; at < end; ++at) {
      columns_.push_back(snapshot.segments[pool.segment[at]]->segment().p.dense[column].get());
      rows_.push_back(pool.row[at]);
    }
  }

  bool has(std::size_t i) const { return columns_[i]->has(rows_[i]); }

  // Cosine of entry i, as query, and entry j. 0 if either has no vector.
  float cosine_of(std::size_t i, std::size_t j) {
    if (!has(i) || !has(j)) return 0.0f;
    if (widened_[i].empty()) widened_[i] = columns_[i]->widen(rows_[i]);
    float score;
    columns_[j]->score(widened_[i].data(), columns_[i]->inverse_norms[rows_[i]], rows_[j],
                       rows_[j] + 1, &score);
    return score;
  }

 private:
  std::vector<DenseColumn const*> columns_;
  std::vector<Row> rows_;
  std::vector<std::vector<float>> widened_;
};

struct QueryDeduped {
  std::vector<std::int64_t> kept;
  std::vector<std::int64_t> duplicates;
};

QueryDeduped dedup_query(Snapshot const& snapshot, PoolView const& pool, DedupParams const& params,
                         std::size_t begin, std::size_t end) {
  std::size_t const n = end - begin;
  Vectors vectors(snapshot, pool, params.column, begin, end);
  auto const is_close = [&](std::size_t member, std::size_t entry) {
    double const cosine = vectors.cosine_of(member, entry);
    return (params.unit ? (1.0 + cosine) / 2.0 : cosine) > params.threshold;
  };
  std::vector<std::vector<std::size_t>> clusters;
  for (std::size_t entry = 0; entry < n; ++entry) {
    auto cluster = clusters.end();
    if (vectors.has(entry)) {
      cluster = std::find_if(clusters.begin(), clusters.end(), [&](auto const& members) {
        return vectors.has(members.front()) &&
               std::any_of(members.begin(), members.end(),
                           [&](std::size_t member) { return is_close(member, entry); });
      });
    }
    if (cluster == clusters.end()) {
      clusters.push_back({entry});
    } else {
      cluster->push_back(entry);
    }
  }
  std::vector<std::pair<std::size_t, std::int64_t>> survivors;  // (entry, duplicates)
  for (auto const& members : clusters) {
    auto const best =
        std::min_element(members.begin(), members.end(), [&](std::size_t a, std::size_t b) {
          if (params.preference.empty()) return a < b;
          auto const pa = params.preference[begin + a], pb = params.preference[begin + b];
          return pa != pb ? pa < pb : a < b;
        });
    survivors.emplace_back(*best, static_cast<std::int64_t>(members.size()) - 1);
  }
  std::sort(survivors.begin(), survivors.end());
  QueryDeduped out;
  for (auto const& [entry, duplicates] : survivors) {
    out.kept.push_back(static_cast<std::int64_t>(begin + entry));
    out.duplicates.push_back(duplicates);
  }
  return out;
}

std::vector<double> scaled_relevance(std::span<double const> scores, RelevanceScale scale) {
  std::vector<double> out(scores.begin(), scores.end());
  if (scores.empty() || scale == RelevanceScale::kRaw) return out;
  auto const [low, high] = std::minmax_element(scores.begin(), scores.end());
  for (double& score : out) {
    if (scale == RelevanceScale::kMinMax) {
      score = minmax_scale(score, *low, *high);
    } else {
      score = *high > 0.0 ? score / *high : 0.0;
    }
  }
  return out;
}

struct QueryDiversified {
  std::vector<std::int64_t> chosen;
  std::vector<double> value;
  std::vector<double> relevance;
  std::vector<double> similarity;
  std::vector<std::int64_t> nearest;
};

QueryDiversified diversify_query(Snapshot const& snapshot, PoolView const& pool,
                                 DiversifyParams const& params, std::size_t query,
                                 std::size_t begin, std::size_t end) {
  std::size_t const n = end - begin;
  std::vector<double> const relevance =
      scaled_relevance(pool.scores.subspan(begin, n), params.scale);
  std::vector<double> similarity(n, 0.0);
  std::vector<std::int64_t> nearest(n, -1);
  std::vector<bool> is_chosen(n, false);
  bool const is_bounded = !params.tokens.empty() && params.budgets[query] > 0;
  std::int64_t left = is_bounded ? params.budgets[query] : 0;
  std::optional<Vectors> vectors;
  if (params.use_vectors) vectors.emplace(snapshot, pool, params.column, begin, end);
  QueryDiversified out;
  while (out.chosen.size() < std::min(params.n_wanted, n)) {
    std::size_t best = n;
    double best_value = 0.0;
    for (std::size_t i = 0; i < n; ++i) {
      bool const fits = !is_bounded || out.chosen.empty() || params.tokens[begin + i] <= left;
      if (is_chosen[i] || !fits) continue;
      double const value = mmr_value(params.relevance_weight, relevance[i], similarity[i]);
      if (best == n || value > best_value) {
        best = i;
        best_value = value;
      }
      if (out.chosen.empty()) break;  // the first of the list, whatever the weight
    }
    if (best == n) break;
    is_chosen[best] = true;
    if (is_bounded) left -= params.tokens[begin + best];
    out.chosen.push_back(static_cast<std::int64_t>(begin + best));
    out.value.push_back(best_value);
    out.relevance.push_back(relevance[best]);
    out.similarity.push_back(similarity[best]);
    out.nearest.push_back(nearest[best]);
    if (!vectors || !vectors->has(best) || out.chosen.size() == params.n_wanted) continue;
    for (std::size_t i = 0; i < n; ++i) {
      if (is_chosen[i]) continue;
      double const cosine = vectors->cosine_of(best, i);
      if (cosine > similarity[i]) {
        similarity[i] = cosine;
        nearest[i] = static_cast<std::int64_t>(begin + best);
      }
    }
  }
  return out;
}

}  // namespace

Selected order_pool(PoolView const& pool, std::span<std::span<std::int64_t const> const> ties,
                    int threads) {
  auto const ordered = per_query<std::vector<std::int64_t>>(
      pool, threads, [&](std::size_t, std::size_t begin, std::size_t end) {
        std::vector<std::int64_t> entries(end - begin);
        std::iota(entries.begin(), entries.end(), static_cast<std::int64_t>(begin));
        std::stable_sort(entries.begin(), entries.end(), [&](std::int64_t a, std::int64_t b) {
          auto const x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
          if (pool.scores[x] != pool.scores[y]) return pool.scores[x] > pool.scores[y];
          for (auto const& tie : ties) {
            if (tie[x] != tie[y]) return tie[x] < tie[y];
          }
          return false;
        });
        return entries;
      });
  Selected out;
  for (auto const& entries : ordered) append(out, entries);
  return out;
}

Deduped dedup_pool(Snapshot const& snapshot, PoolView const& pool, DedupParams const& params,
                   int threads) {
  auto const results =
      per_query<QueryDeduped>(pool, threads, [&](std::size_t, std::size_t begin, std::size_t end) {
        return dedup_query(snapshot, pool, params, begin, end);
      });
  Deduped out;
  for (QueryDeduped const& one : results) {
    append(out.kept, one.kept);
    append(out.duplicates, one.duplicates);
  }
  return out;
}

Diversified diversify_pool(Snapshot const& snapshot, PoolView const& pool,
                           DiversifyParams const& params, int threads) {
  auto const results = per_query<QueryDiversified>(
      pool, threads, [&](std::size_t q, std::size_t begin, std::size_t end) {
        return diversify_query(snapshot, pool, params, q, begin, end);
      });
  Diversified out;
  for (QueryDiversified const& one : results) {
    append(out.chosen, one.chosen);
    append(out.value, one.value);
    append(out.relevance, one.relevance);
    append(out.similarity, one.similarity);
    append(out.nearest, one.nearest);
  }
  return out;
}

float row_cosine(DenseColumn const& query_column, Row query_row, DenseColumn const& column,
                 Row row) {
  if (!query_column.has(query_row) || !column.has(row)) return 0.0f;
  std::vector<float> const query = query_column.widen(query_row);
  float score;
  column.score(query.data(), query_column.inverse_norms[query_row], row, row + 1, &score);
  return score;
}

}  // namespace hyrecall
