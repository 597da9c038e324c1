// Hops in a graph of two tables against plain definitions: documents are nodes, the other table's
// lists of keys are edges.
#include <algorithm>
#include <cmath>
#include <random>

#include "core/error.hpp"
#include "engine/related/adjacency.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

using Key = std::variant<std::string, std::int64_t>;  // as KeyValue, but it owns its string

KeyValue borrow(Key const& key) {
  if (auto const* const text = std::get_if<std::string>(&key)) return std::string_view(*text);
  return std::get<std::int64_t>(key);
}

Key own(KeyValue const& key) {
  if (auto const* const text = std::get_if<std::string_view>(&key)) return std::string(*text);
  return std::get<std::int64_t>(key);
}

struct Graph {
  bool has_text_keys;
  World nodes;
  World edges;
  Asked node_asked;
  Asked edge_asked;

  Key key(std::int64_t number) const { return has_text_keys ? Key(key_name(number)) : Key(number); }
  // The keys that a query sees live, and the participants of each edge that it sees, by edge.
  std::set<Key> live(std::size_t q) const {
    std::set<Key> out;
    for (Doc const& doc : nodes.docs) {
      if (node_asked.in_scope(q, doc)) out.insert(key(doc.key));
    }
    return out;
  }
  std::vector<std::pair<Doc const*, std::set<Key>>> seen_edges(std::size_t q) const {
    std::vector<std::pair<Doc const*, std::set<Key>>> out;
    for (Doc const& edge : edges.docs) {
      if (!edge_asked.in_scope(q, edge)) continue;
      out.emplace_back(&edge, std::set<Key>{});
      for (std::int64_t member : edge.members) out.back().second.insert(key(member));
    }
    return out;
  }
};

constexpr std::int64_t kKeys = 25;
constexpr std::size_t kQueries = 5;

Graph random_graph(Rng& rng) {
  WorldOptions options;
  options.has_text_keys = rng.below(2) == 0;
  options.n_keys = kKeys;
  options.n_cells = rng.below(4) == 0 ? 60 : 4;  // sixty: live keys are listed, not looked up
  options.max_rows = 80;
  World nodes = random_world(rng, options);
  Asked node_asked = random_asked(rng, options.n_cells, kQueries, 3, 1 + rng.below(3));
  options.n_cells = 3;
  options.max_rows = 25;
  options.n_segments = 2;
  World edges = random_world(rng, options);
  Asked edge_asked = random_asked(rng, options.n_cells, kQueries, 3, 1 + rng.below(3));
  return {options.has_text_keys, std::move(nodes), std::move(edges), std::move(node_asked),
          std::move(edge_asked)};
}

// Keys of nodes, of nothing, and of the other type.
std::vector<Key> random_keys(Rng& rng, Graph const& graph, std::size_t n) {
  std::vector<Key> out;
  for (; n > 0; --n) out.push_back(graph.key(rng.below(kKeys + 3)));
  if (rng.below(5) == 0) out.push_back(graph.has_text_keys ? Key(std::int64_t{1}) : Key("k1"));
  return out;
}

std::vector<KeyValue> borrowed(std::vector<Key> const& keys) {
  std::vector<KeyValue> out;
  for (Key const& key : keys) out.push_back(borrow(key));
  return out;
}

// Hops from the nearest source to every node within `most`, a wave at a time.
std::map<Key, int> plain_hops(Graph const& graph, std::size_t q, std::vector<Key> const& sources,
                              int most) {
  auto const edges = graph.seen_edges(q);
  std::set<Key> const live = graph.live(q);
  std::map<Key, int> hops;
  for (Key const& source : sources) {
    bool const takes_part = std::any_of(
        edges.begin(), edges.end(), [&](auto const& edge) { return edge.second.contains(source); });
    if (takes_part && live.contains(source)) hops[source] = 0;
  }
  for (int hop = 1; hop <= most; ++hop) {
    std::map<Key, int> const before = hops;
    for (auto const& [edge, members] : edges) {
      bool const is_reached = std::any_of(members.begin(), members.end(),
                                          [&](Key const& key) { return before.contains(key); });
      if (!is_reached) continue;
      for (Key const& key : members) {
        if (live.contains(key)) hops.emplace(key, hop);
      }
    }
  }
  return hops;
}

struct Built {
  Graph graph;
  Adjacency adjacency;

  explicit Built(Rng& rng)
      : graph(random_graph(rng)),
        adjacency(graph.edges.snapshot, graph.edge_asked.request, kMembers, graph.nodes.snapshot,
                  graph.node_asked.request) {}
};

TEST(adjacency_distances_are_hops_over_the_edges_and_nodes_that_are_seen) {
  Rng rng(51);
  std::size_t n_far = 0;
  for (int round = 0; round < 200; ++round) {
    Built const built(rng);
    CHECK_EQ(built.adjacency.n_queries(), kQueries);
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::vector<Key> const sources = random_keys(rng, built.graph, rng.below(std::size_t{4}));
      int const most = rng.below(6);
      auto const found = built.adjacency.distances(q, borrowed(sources), most);
      std::map<Key, int> const expected = plain_hops(built.graph, q, sources, most);
      CHECK_EQ(found.size(), expected.size());
      auto at = expected.begin();  // by key, as they must come
      for (Adjacency::Hop const& one : found) {
        CHECK(own(one.key) == at->first);
        CHECK_EQ(one.hops, at->second);
        n_far += one.hops > 1;
        ++at;
      }
    }
  }
  CHECK(n_far > 200);
}

TEST(adjacency_spread_is_the_largest_score_halved_at_each_hop) {
  Rng rng(52);
  std::size_t n_spread = 0;
  for (int round = 0; round < 200; ++round) {
    Built const built(rng);
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::vector<Key> const sources = random_keys(rng, built.graph, rng.below(std::size_t{4}));
      std::vector<Key> const targets = random_keys(rng, built.graph, rng.below(std::size_t{30}));
      std::vector<double> scores;
      for (std::size_t i = 0; i < sources.size(); ++i) scores.push_back(rng.unit());
      int const most = rng.below(5);
      auto const found =
          built.adjacency.spread(q, borrowed(sources), scores, borrowed(targets), most);
      CHECK_EQ(found.size(), targets.size());
      std::vector<double> expected(targets.size(), 0.0);
      for (std::size_t s = 0; s < sources.size(); ++s) {
        std::map<Key, int> const hops = plain_hops(built.graph, q, {sources[s]}, most);
        for (std::size_t t = 0; t < targets.size(); ++t) {
          auto const at = hops.find(targets[t]);
          if (at != hops.end())
            expected[t] = std::max(expected[t], std::ldexp(scores[s], -at->second));
          if (targets[t] == sources[s]) expected[t] = std::max(expected[t], scores[s]);
        }
      }
      CHECK(found == expected);
      n_spread += static_cast<std::size_t>(
          std::count_if(found.begin(), found.end(), [](double score) { return score > 0.0; }));
    }
  }
  CHECK(n_spread > 1000);
}

TEST(adjacency_neighbours_have_a_row_for_each_edge_between) {
  Rng rng(53);
  std::size_t n_found = 0;
  for (int round = 0; round < 100; ++round) {
    Built const built(rng);
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::set<Key> const live = built.graph.live(q);
      for (Key const& key : random_keys(rng, built.graph, 10)) {
        std::vector<std::tuple<Key, std::uint32_t, Row>> expected, found;
        for (auto const& [edge, members] : built.graph.seen_edges(q)) {
          if (!members.contains(key) || !live.contains(key)) continue;
          for (Key const& other : members) {
            if (other != key && live.contains(other))
              expected.emplace_back(other, edge->segment, edge->row);
          }
        }
        for (auto const& one : built.adjacency.neighbours(q, borrow(key)))
          found.emplace_back(own(one.key), one.edge.segment, one.edge.row);
        CHECK(found == expected);
        n_found += found.size();
      }
    }
  }
  CHECK(n_found > 1000);
}

TEST(adjacency_best_neighbours_have_their_best_edge_and_stand_by_score_then_key) {
  Rng rng(54);
  std::size_t n_found = 0, n_cut = 0, n_hidden = 0, n_tied = 0;
  for (int round = 0; round < 100; ++round) {
    Built const built(rng);
    for (std::size_t q = 0; q < kQueries; ++q) {
      std::vector<Key> const keys = random_keys(rng, built.graph, 5);
      std::vector<Key> const hidden = random_keys(rng, built.graph, rng.below(std::size_t{6}));
      std::size_t const n = 1 + rng.below(std::size_t{6});
      std::vector<Adjacency::ScoredEdge> scores;  // few distinct ones, so that many are equal
      for (auto const& [edge, members] : built.graph.seen_edges(q)) {
        if (rng.below(3) != 0) scores.push_back({{edge->segment, edge->row}, 0.5 * rng.below(2)});
      }
      std::shuffle(scores.begin(), scores.end(), std::mt19937(7));
      std::vector<std::vector<Adjacency::Neighbour>> found;
      for (Key const& key : keys) found.push_back(built.adjacency.neighbours(q, borrow(key)));
      auto const best = built.adjacency.best_neighbours(found, scores, borrowed(hidden), n);
      CHECK_EQ(best.size(), keys.size());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        using Rank = std::tuple<double, Seq, DocRef>;  // the lowest is the best
        std::map<Key, Rank> expected;
        for (auto const& [key, edge] : found[i]) {
          if (std::find(hidden.begin(), hidden.end(), own(key)) != hidden.end()) {
            ++n_hidden;
            continue;
          }
          double score = 0.0;
          for (auto const& one : scores) {
            if (one.edge == edge) score = one.score;
          }
          auto const& segment = built.graph.edges.snapshot.segments[edge.segment]->segment();
          Rank const rank{-score, segment.p.seqs[edge.row], edge};
          auto const [at, is_new] = expected.emplace(own(key), rank);
          if (!is_new) {
            n_tied += std::get<0>(at->second) == -score;
            at->second = std::min(at->second, rank);
          }
        }
        std::vector<std::pair<double, Key>> order;
        for (auto const& [key, rank] : expected) order.emplace_back(std::get<0>(rank), key);
        std::sort(order.begin(), order.end());
        n_cut += order.size() > n;
        order.resize(std::min(order.size(), n));
        CHECK_EQ(best[i].size(), order.size());
        for (std::size_t k = 0; k < order.size(); ++k) {
          CHECK(own(best[i][k].key) == order[k].second);
          CHECK_EQ(best[i][k].score, -order[k].first + 0.0);
          CHECK(best[i][k].edge == std::get<2>(expected.at(order[k].second)));
        }
        n_found += order.size();
      }
    }
  }
  CHECK(n_found > 1000);
  CHECK(n_cut > 100);
  CHECK(n_hidden > 100);
  CHECK(n_tied > 20);
}

// Some keys of each query, back to back.
struct KeysOfQueries {
  std::vector<Key> keys;
  std::vector<KeyValue> values;  // of keys
  std::vector<std::int64_t> offsets{0};

  KeysOfQueries(Rng& rng, Graph const& graph, std::size_t most) {
    for (std::size_t q = 0; q < kQueries; ++q) {
      for (Key& key : random_keys(rng, graph, rng.below(most))) keys.push_back(std::move(key));
      offsets.push_back(std::ssize(keys));
    }
    values = borrowed(keys);
  }
  KeysOfQueries(KeysOfQueries const&) = delete;
  ByQuery<KeyValue> by_query() const { return {kQueries, offsets, values}; }
};

bool equal(Adjacency::Neighbour const& a, Adjacency::Neighbour const& b) {
  return a.key == b.key && a.edge == b.edge;
}

TEST(adjacency_answers_a_batch_as_it_answers_each_query) {
  Rng rng(55);
  std::size_t n_hops = 0, n_neighbours = 0, n_best = 0;
  for (int round = 0; round < 200; ++round) {
    Built const built(rng);
    Adjacency const& one = built.adjacency;
    KeysOfQueries const sources(rng, built.graph, 6);
    KeysOfQueries const targets(rng, built.graph, 20);
    KeysOfQueries const hidden(rng, built.graph, 3);
    std::vector<double> scores;
    for (std::size_t i = 0; i < sources.keys.size(); ++i) scores.push_back(rng.unit());
    std::vector<Adjacency::ScoredEdge> edges;
    std::vector<std::int64_t> edge_offsets{0};
    for (std::size_t q = 0; q < kQueries; ++q) {
      for (auto const& [edge, members] : built.graph.seen_edges(q))
        edges.push_back({{edge->segment, edge->row}, 0.5 * rng.below(3)});
      edge_offsets.push_back(std::ssize(edges));
    }
    ByQuery<Adjacency::ScoredEdge> const by_edge(kQueries, edge_offsets, edges);
    int const most = rng.below(5);
    std::size_t const n = 1 + rng.below(std::size_t{4});
    int const threads = 1 + rng.below(3);

    auto const hops = distances_by_query(one, sources.by_query(), most, threads);
    auto const spread =
        spread_by_query(one, sources.by_query(), scores, targets.by_query(), most, threads);
    NeighboursByQuery const neighbours(one, sources.by_query(), threads);
    std::vector<std::int64_t> const counts = neighbours.counts();
    NeighboursByQuery::Best const best = neighbours.best(by_edge, hidden.by_query(), n);
    CHECK_EQ(hops.size(), kQueries);
    CHECK_EQ(spread.size(), targets.keys.size());
    CHECK_EQ(counts.size(), kQueries);
    CHECK_EQ(best.offsets.size(), sources.keys.size() + 1);
    CHECK_EQ(best.offsets.back(), std::ssize(best.keys));
    std::size_t at = 0;  // among the best
    for (std::size_t q = 0; q < kQueries; ++q) {
      auto const own_sources = sources.by_query()[q];
      auto const own_targets = targets.by_query()[q];
      auto const own_scores = sources.by_query().of(q, std::span<double const>(scores));
      auto const plain = one.distances(q, own_sources, most);
      CHECK_EQ(hops[q].size(), plain.size());
      for (std::size_t i = 0; i < plain.size(); ++i)
        CHECK(hops[q][i].key == plain[i].key && hops[q][i].hops == plain[i].hops);
      n_hops += plain.size();
      auto const part = targets.by_query().of(q, std::span<double const>(spread));
      CHECK(std::vector(part.begin(), part.end()) ==
            one.spread(q, own_sources, own_scores, own_targets, most));
      std::vector<std::vector<Adjacency::Neighbour>> found;
      std::int64_t count = 0;
      for (KeyValue const& key : own_sources) {
        found.push_back(one.neighbours(q, key));
        count += std::ssize(found.back());
      }
      CHECK_EQ(counts[q], count);
      n_neighbours += static_cast<std::size_t>(count);
      std::vector<KeyValue> all(own_sources.begin(), own_sources.end());
      for (KeyValue const& key : hidden.by_query()[q]) all.push_back(key);
      auto const own_edges = by_edge[q];
      auto const expected =
          one.best_neighbours(found, {own_edges.begin(), own_edges.end()}, std::move(all), n);
      for (auto const& of_key : expected) {
        for (Adjacency::BestNeighbour const& wanted : of_key) {
          CHECK(equal({best.keys.at(at), {best.segment.at(at), best.row.at(at)}},
                      {wanted.key, wanted.edge}));
          CHECK_EQ(best.score.at(at), wanted.score);
          ++at;
        }
      }
    }
    CHECK_EQ(at, best.keys.size());
    n_best += at;
  }
  CHECK(n_hops > 500);
  CHECK(n_neighbours > 500);
  CHECK(n_best > 500);
}

TEST(adjacency_refuses_a_batch_that_does_not_fit) {
  Rng rng(56);
  Built const built(rng);
  KeysOfQueries const keys(rng, built.graph, 4);
  auto const is_refused = [](auto const& call) {
    try {
      call();
    } catch (Error const&) {
      return true;
    }
    return false;
  };
  std::vector<std::int64_t> const none(kQueries, 0);  // the offsets of one query fewer
  ByQuery<KeyValue> const fewer(kQueries - 1, none, {});
  CHECK(is_refused([&] { distances_by_query(built.adjacency, fewer, 1, 1); }));
  CHECK(is_refused([&] { distances_by_query(built.adjacency, keys.by_query(), 255, 1); }));
  CHECK(is_refused([&] { distances_by_query(built.adjacency, keys.by_query(), -1, 1); }));
  CHECK(is_refused([&] { NeighboursByQuery(built.adjacency, fewer, 1); }));
  std::vector<double> const scores(keys.keys.size() + 1);
  CHECK(is_refused(
      [&] { spread_by_query(built.adjacency, keys.by_query(), scores, keys.by_query(), 1, 1); }));
}

}  // namespace
}  // namespace hyrecall::testing
