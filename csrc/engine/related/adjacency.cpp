#include "engine/related/adjacency.hpp"

#include <algorithm>
#include <map>

#include "core/error.hpp"
#include "core/formulas.hpp"
#include "core/interrupt.hpp"
#include "core/parallel.hpp"

namespace hyrecall {
namespace {

constexpr std::uint8_t kUnknown = 2;

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
  std::sort(scores.begin(), scores.end(),
            [](ScoredEdge const& a, ScoredEdge const& b) { return a.edge < b.edge; });
  std::sort(hidden.begin(), hidden.end());
  auto const score_of = [&](DocRef edge) {
    auto const at =
        std::lower_bound(scores.begin(), scores.end(), edge,
                         [](ScoredEdge const& one, DocRef place) { return one.edge < place; });
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
      if (std::binary_search(hidden.begin(), hidden.end(), key)) continue;
      Seq const seq = edges_.segments[edge.segment]->segment().p.seqs[edge.row];
      all.push_back({{key, edge, score_of(edge)}, seq});
    }
    std::sort(all.begin(), all.end(), [](Ranked const& a, Ranked const& b) {
      if (a.one.key != b.one.key) return a.one.key < b.one.key;
      if (a.one.score != b.one.score) return a.one.score > b.one.score;
      return a.seq < b.seq;
    });
    auto const end = std::unique(all.begin(), all.end(), [](Ranked const& a, Ranked const& b) {
      return a.one.key == b.one.key;
    });
    // They stand by key, so a stable sort leaves those of one score in that order.
    std::stable_sort(all.begin(), end,
                     [](Ranked const& a, Ranked const& b) { return a.one.score > b.one.score; });
    std::size_t const n_kept = std::min(n, static_cast<std::size_t>(end - all.begin()));
    for (std::size_t k = 0; k < n_kept; ++k) out[i].push_back(all[k].one);
  }
  return out;
}

}  // namespace hyrecall
