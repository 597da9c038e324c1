#include "engine/related/adjacency_batch.hpp"

#include <algorithm>
#include <utility>

#include "core/error.hpp"
#include "core/fp_env.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

void require_few_hops(int most) {
  require(most >= 0 && most < Incidence::kFar, "fewer than 255 hops");
}

}  // namespace

std::vector<std::vector<Adjacency::Hop>> distances_by_query(Adjacency const& adjacency,
                                                            ByQuery<KeyValue> const& sources,
                                                            int most, int threads) {
  require_few_hops(most);
  require(sources.n_queries() == adjacency.n_queries(), "the queries of the graph");
  std::vector<std::vector<Adjacency::Hop>> found(sources.n_queries());
  parallel_for(found.size(), threads,
               [&](int, std::size_t q) { found[q] = adjacency.distances(q, sources[q], most); });
  return found;
}

std::vector<double> spread_by_query(Adjacency const& adjacency, ByQuery<KeyValue> const& sources,
                                    std::span<double const> scores,
                                    ByQuery<KeyValue> const& targets, int most, int threads) {
  require_few_hops(most);
  require(
      sources.n_queries() == adjacency.n_queries() && targets.n_queries() == adjacency.n_queries(),
      "the queries of the graph");
  require(scores.size() == sources.entries().size(), "one score a source");
  std::vector<double> out(targets.entries().size());
  parallel_for(sources.n_queries(), threads, [&](int, std::size_t q) {
    FpEnvGuard const fp;
    std::vector<double> const spread =
        adjacency.spread(q, sources[q], sources.of(q, scores), targets[q], most);
    std::copy(spread.begin(), spread.end(),
              out.begin() + static_cast<std::ptrdiff_t>(targets.begin(q)));
  });
  return out;
}

NeighboursByQuery::NeighboursByQuery(Adjacency const& adjacency, ByQuery<KeyValue> keys,
                                     int threads)
    : adjacency_(adjacency), keys_(std::move(keys)), threads_(threads) {
  require(keys_.n_queries() == adjacency.n_queries(), "the queries of the graph");
  std::span<KeyValue const> const all = keys_.entries();
  std::vector<std::size_t> query_of;
  for (std::size_t q = 0; q < n_queries(); ++q) query_of.insert(query_of.end(), keys_[q].size(), q);
  found_.resize(all.size());
  parallel_for(all.size(), threads,
               [&](int, std::size_t i) { found_[i] = adjacency_.neighbours(query_of[i], all[i]); });
}

std::vector<std::int64_t> NeighboursByQuery::counts() const {
  std::vector<std::int64_t> out(n_queries());
  for (std::size_t q = 0; q < n_queries(); ++q) {
    for (auto const& one : keys_.of(q, std::span(found_))) out[q] += std::ssize(one);
  }
  return out;
}

NeighboursByQuery::Best NeighboursByQuery::best(ByQuery<Adjacency::ScoredEdge> const& scores,
                                                ByQuery<KeyValue> const& hidden,
                                                std::size_t n) const {
  require(scores.n_queries() == n_queries() && hidden.n_queries() == n_queries(),
          "the queries of the graph");
  std::vector<std::vector<std::vector<Adjacency::BestNeighbour>>> best(n_queries());
  parallel_for(n_queries(), threads_, [&](int, std::size_t q) {
    std::vector<KeyValue> all(keys_[q].begin(), keys_[q].end());
    all.insert(all.end(), hidden[q].begin(), hidden[q].end());
    best[q] = adjacency_.best_neighbours(keys_.of(q, std::span(found_)),
                                         {scores[q].begin(), scores[q].end()}, std::move(all), n);
  });
  Best out;
  for (auto const& of_query : best) {
    for (auto const& of_key : of_query) {
      for (Adjacency::BestNeighbour const& one : of_key) {
        out.keys.push_back(one.key);
        out.segment.push_back(one.edge.segment);
        out.row.push_back(one.edge.row);
        out.score.push_back(one.score);
      }
      out.offsets.push_back(std::ssize(out.row));
    }
  }
  return out;
}

}  // namespace hyrecall
