// A graph over the documents of one snapshot, whose edges are the documents of another: each edge
// lists the keys of its participants, which are one hop apart from each other. A query sees the
// edges of its scope among the edges, and of their participants those that are in its scope among
// the nodes; nothing else is there, not even to pass through.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "core/by_query.hpp"
#include "engine/related/incidence.hpp"

namespace hyrecall {

// Which keys live in a scope. In a few cells they are looked up in the tables of keys; of many
// cells they are listed once.
class LiveKeys {
 public:
  LiveKeys(Snapshot const& nodes, ScopeOnSegments scope);
  bool operator()(KeyValue const& key) const;

 private:
  static constexpr std::size_t kFewCells = 32;

  Snapshot const& nodes_;
  ScopeOnSegments scope_;
  bool is_listed_ = false;
  std::vector<KeyValue> keys_;  // rising
};

class Adjacency {
 public:
  // Both requests hold the same queries; their scopes alone are read. Everything must outlive this.
  Adjacency(Snapshot const& edges, BatchRequest const& edge_request, std::size_t participants,
            Snapshot const& nodes, BatchRequest const& node_request);

  std::size_t n_queries() const { return group_of_.size(); }

  struct Hop {
    KeyValue key;
    int hops;
  };
  // Every node within `most` hops of the nearest source, by key; sources that are no participant
  // of an edge reach nothing.
  std::vector<Hop> distances(std::size_t query, std::span<KeyValue const> sources, int most) const;

  // For each target the largest of score x 2^-hops over the sources within `most` hops, 0 if there
  // is none. A source is at distance 0 of itself, on an edge or not.
  std::vector<double> spread(std::size_t query, std::span<KeyValue const> sources,
                             std::span<double const> scores, std::span<KeyValue const> targets,
                             int most) const;

  struct Neighbour {
    KeyValue key;
    DocRef edge;
  };
  // The nodes one hop from this one, a row for each edge between them, by (edge, key).
  std::vector<Neighbour> neighbours(std::size_t query, KeyValue const& key) const;

  struct ScoredEdge {
    DocRef edge;
    double score;
  };
  struct BestNeighbour {
    KeyValue key;
    DocRef edge;
    double score;
  };
  // Of the neighbours of each node of one query the n best: each key once, with its best edge, by
  // (score desc, key). Of several edges to one key the best has the highest score, then the lowest
  // seq. An edge without a score has 0. Hidden keys are left out.
  std::vector<std::vector<BestNeighbour>> best_neighbours(
      std::span<std::vector<Neighbour> const> found, std::vector<ScoredEdge> scores,
      std::vector<KeyValue> hidden, std::size_t n) const;

 private:
  struct Group {
    Incidence edges;
    LiveKeys live;
  };
  Group const& group(std::size_t query) const { return *groups_[group_of_[query]]; }

  Snapshot const& edges_;
  std::vector<std::uint32_t> group_of_;         // [n_queries]
  std::vector<std::unique_ptr<Group>> groups_;  // [n distinct (edge scope, node scope)]
};

// ---- Questions for all queries of a batch at once, on several threads.

// Adjacency::distances of each query.
std::vector<std::vector<Adjacency::Hop>> distances_by_query(Adjacency const& adjacency,
                                                            ByQuery<KeyValue> const& sources,
                                                            int most, int threads);

// Adjacency::spread of each query, a value for each entry of targets. scores: one for each entry of
// sources.
std::vector<double> spread_by_query(Adjacency const& adjacency, ByQuery<KeyValue> const& sources,
                                    std::span<double const> scores,
                                    ByQuery<KeyValue> const& targets, int most, int threads);

// The neighbours of each query's keys, found once, to count them and then to pick the best.
class NeighboursByQuery {
 public:
  // adjacency and what keys refer to must outlive this.
  NeighboursByQuery(Adjacency const& adjacency, ByQuery<KeyValue> keys, int threads);

  std::size_t n_queries() const { return keys_.n_queries(); }
  // How many neighbours the keys of each query have, counted once for each edge.
  std::vector<std::int64_t> counts() const;

  // Entry i of the keys has the neighbours from offsets[i] to offsets[i + 1].
  struct Best {
    std::vector<std::int64_t> offsets{0};  // [n keys + 1]
    std::vector<KeyValue> keys;
    std::vector<std::uint32_t> segment;  // of the best edge
    std::vector<Row> row;
    std::vector<double> score;
  };
  // Adjacency::best_neighbours of each query. The query's own keys are hidden too.
  Best best(ByQuery<Adjacency::ScoredEdge> const& scores, ByQuery<KeyValue> const& hidden,
            std::size_t n) const;

 private:
  Adjacency const& adjacency_;
  ByQuery<KeyValue> keys_;
  int threads_;
  std::vector<std::vector<Adjacency::Neighbour>> found_;  // [n keys]
};

}  // namespace hyrecall
