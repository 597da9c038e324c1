// Questions to a graph for all queries of a batch at once, on several threads.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/by_query.hpp"
#include "engine/related/adjacency.hpp"

namespace hyrecall {

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
