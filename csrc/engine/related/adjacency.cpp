#include "engine/related/adjacency.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <tuple>
#include <utility>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/fp_env.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

constexpr std::uint8_t kUnknown = 2;

void require_few_hops(int most) {
  require(most >= 0 && most < Incidence::kFar, "fewer than 255 hops");
}

}  // namespace

LiveKeys::LiveKeys(Snapshot const& nodes, ScopeOnSegments scope)
    : nodes_(nodes), scope_(std::move(scope)) {
  std::size_t n_cells = 0;
  for (ScopeRows const& rows : scope_) n_cells += rows.cells.size();
  is_listed_ = n_cells > kFewCells;
  for (std::size_t s = 0; is_listed_ && s < scope_.size(); ++s) {
    if (scope_[s].ranges.empty()) continue;  // nobody of the scope reads its keys
    SegmentView const& view = *nodes.segments[s];
    view.segment().p.keys.check();
    for (RowRange const& range : scope_[s].ranges) {
      for (Row row = range.begin; row < range.end; ++row) {
        if (view.live()[row]) keys_.push_back(view.segment().p.keys.key(row));
      }
    }
  }
  std::sort(keys_.begin(), keys_.end());
}

bool LiveKeys::operator()(KeyValue const& key) const {
  if (is_listed_) return std::binary_search(keys_.begin(), keys_.end(), key);
  for (std::size_t s = 0; s < scope_.size(); ++s) {
    SegmentView const& view = *nodes_.segments[s];
    Segment::Parts const& parts = view.segment().p;
    for (std::uint32_t cell : scope_[s].cells) {
      Row const row = parts.keys.find(parts.cells, cell, key);
      if (row != kNone32 && view.live()[row]) return true;
    }
  }
  return false;
}

Adjacency::Adjacency(Snapshot const& edges, BatchRequest const& edge_request,
                     std::size_t participants, Snapshot const& nodes,
                     BatchRequest const& node_request)
    : edges_(edges) {
  require(edge_request.n_queries == node_request.n_queries, "the same queries");
  ResolvedScopes const edge_scopes = resolve_scopes(edges, edge_request);
  ResolvedScopes const node_scopes = resolve_scopes(nodes, node_request);
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> numbers;
  std::vector<std::pair<std::uint32_t, std::uint32_t>> pairs;
  for (std::size_t q = 0; q < edge_request.n_queries; ++q) {
    std::pair const pair{edge_request.scope_of[q], node_request.scope_of[q]};
    auto const [at, is_new] = numbers.emplace(pair, static_cast<std::uint32_t>(pairs.size()));
    if (is_new) pairs.push_back(pair);
    group_of_.push_back(at->second);
  }
  groups_.resize(pairs.size());
  parallel_for(pairs.size(), edge_request.threads, [&](int, std::size_t p) {
    GroupTiles tiles;
    for (std::size_t s = 0; s < edges.segments.size(); ++s)
      tiles.push_back(select_tiles(*edges.segments[s], edge_scopes[pairs[p].first][s], nullptr));
    groups_[p] = std::make_unique<Group>(Incidence(edges, participants, tiles),
                                         LiveKeys(nodes, node_scopes[pairs[p].second]));
  });
}

std::vector<Adjacency::Hop> Adjacency::distances(std::size_t query,
                                                 std::span<KeyValue const> sources,
                                                 int most) const {
  auto const& [nodes, live] = group(query);
  std::vector<Incidence::Item> found;
  for (KeyValue const& key : sources) {
    Incidence::Item const item = nodes.find(key);
    if (item != kNone32) found.push_back(item);
  }
  std::vector<std::uint8_t> const hops =
      nodes.hops_from(found, most, [&](Incidence::Item item) { return live(nodes.value(item)); });
  std::vector<Hop> out;
  for (Incidence::Item item = 0; item < nodes.n_items(); ++item) {
    if (hops[item] != Incidence::kFar) out.push_back({nodes.value(item), hops[item]});
  }
  return out;
}

std::vector<double> Adjacency::spread(std::size_t query, std::span<KeyValue const> sources,
                                      std::span<double const> scores,
                                      std::span<KeyValue const> targets, int most) const {
  auto const& [nodes, live] = group(query);
  std::vector<std::uint8_t> known(nodes.n_items(), kUnknown);  // shared by all sources
  auto const is_there = [&](Incidence::Item item) {
    if (known[item] == kUnknown) known[item] = live(nodes.value(item)) ? 1 : 0;
    return known[item] == 1;
  };
  std::vector<Incidence::Item> items;
  for (KeyValue const& key : targets) items.push_back(nodes.find(key));
  std::vector<double> out(targets.size(), 0.0);
  for (std::size_t source = 0; source < sources.size(); ++source) {
    poll_interrupt();
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (targets[t] == sources[source]) out[t] = std::max(out[t], scores[source]);
    }
    Incidence::Item const item = nodes.find(sources[source]);
    if (item == kNone32) continue;
    std::vector<std::uint8_t> const hops = nodes.hops_from({&item, 1}, most, is_there);
    for (std::size_t t = 0; t < targets.size(); ++t) {
      if (items[t] == kNone32 || hops[items[t]] == Incidence::kFar) continue;
      out[t] = std::max(out[t], hop_decay(scores[source], hops[items[t]]));
    }
  }
  return out;
}

std::vector<Adjacency::Neighbour> Adjacency::neighbours(std::size_t query,
                                                        KeyValue const& key) const {
  auto const& [nodes, live] = group(query);
  std::vector<Neighbour> out;
  Incidence::Item const item = nodes.find(key);
  if (item == kNone32 || !live(key)) return out;
  for (std::uint32_t edge : nodes.rows_of(item)) {
    for (Incidence::Item other : nodes.items_of(edge)) {
      if (other != item && live(nodes.value(other)))
        out.push_back({nodes.value(other), nodes.place(edge)});
    }
  }
  return out;
}

std::vector<std::vector<Adjacency::BestNeighbour>> Adjacency::best_neighbours(
    std::span<std::vector<Neighbour> const> found, std::vector<ScoredEdge> scores,
    std::vector<KeyValue> hidden, std::size_t n) const {
  std::ranges::sort(scores, {}, &ScoredEdge::edge);
  std::ranges::sort(hidden);
  auto const score_of = [&](DocRef edge) {
    auto const at = std::ranges::lower_bound(scores, edge, {}, &ScoredEdge::edge);
    return at != scores.end() && at->edge == edge ? at->score : 0.0;
  };
  struct Ranked {
    BestNeighbour one;
    Seq seq;
  };
  std::vector<std::vector<BestNeighbour>> out(found.size());
  std::vector<Ranked> all;
  for (std::size_t i = 0; i < found.size(); ++i) {
    poll_interrupt();
    all.clear();
    for (auto const& [key, edge] : found[i]) {
      if (std::ranges::binary_search(hidden, key)) continue;
      Seq const seq = edges_.segments[edge.segment]->segment().p.seqs[edge.row];
      all.push_back({{key, edge, score_of(edge)}, seq});
    }
    std::ranges::sort(all, {}, [](Ranked const& a) {
      return std::tuple(a.one.key, -a.one.score, a.seq);  // of one key the best comes first
    });
    auto const again = std::ranges::unique(all, {}, [](Ranked const& a) { return a.one.key; });
    all.erase(again.begin(), again.end());
    // They stand by key, so a stable sort leaves those of one score in that order.
    std::ranges::stable_sort(all, std::greater(), [](Ranked const& a) { return a.one.score; });
    std::size_t const n_kept = std::min(n, all.size());
    for (std::size_t k = 0; k < n_kept; ++k) out[i].push_back(all[k].one);
  }
  return out;
}

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
