// Binds graphs of edges: distances between nodes, and the neighbours of nodes.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/by_query.hpp"
#include "engine/related/adjacency.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// Values as Python gave them, which refer to the column.
struct TakenKeys {
  KeyColumn column;
  std::vector<KeyValue> values;

  explicit TakenKeys(py::object const& keys) : column(take_keys(keys)) {
    for (std::size_t i = 0; i < n_keys(column); ++i) values.push_back(key_at(column, i));
  }
};

py::list give_keys(std::vector<KeyValue> const& keys) {
  py::list out;
  for (KeyValue const& key : keys) {
    if (auto const* text = std::get_if<std::string_view>(&key)) {
      out.append(py::str(text->data(), text->size()));
    } else {
      out.append(py::int_(std::get<std::int64_t>(key)));
    }
  }
  return out;
}

// Keeps the objects that an Adjacency refers to.
struct HeldAdjacency {
  std::shared_ptr<Snapshot> edges;
  std::shared_ptr<Snapshot> nodes;
  int threads;
  Adjacency adjacency;

  ByQuery<KeyValue> of_queries(Array<std::int64_t> const& offsets, TakenKeys const& keys) const {
    return {adjacency.n_queries(), span_of(offsets), keys.values};
  }
};

std::shared_ptr<HeldAdjacency> connect(std::shared_ptr<Snapshot> edges,
                                       std::shared_ptr<BatchRequest> const& edge_request,
                                       std::size_t participants, std::shared_ptr<Snapshot> nodes,
                                       std::shared_ptr<BatchRequest> const& node_request) {
  NativeRun const run;
  Adjacency adjacency(*edges, *edge_request, participants, *nodes, *node_request);
  return std::make_shared<HeldAdjacency>(HeldAdjacency{
      std::move(edges), std::move(nodes), edge_request->threads, std::move(adjacency)});
}

py::list distances(HeldAdjacency const& held, Array<std::int64_t> const& offsets,
                   py::object const& sources, int most) {
  TakenKeys const keys(sources);
  ByQuery<KeyValue> const of_queries = held.of_queries(offsets, keys);
  std::vector<std::vector<Adjacency::Hop>> found;
  {
    NativeRun const run;
    found = distances_by_query(held.adjacency, of_queries, most, held.threads);
  }
  py::list out;
  for (auto const& hops : found) {
    std::vector<KeyValue> near;
    std::vector<int> distance;
    for (Adjacency::Hop const& hop : hops) {
      near.push_back(hop.key);
      distance.push_back(hop.hops);
    }
    out.append(py::make_tuple(give_keys(near), distance));
  }
  return out;
}

py::array spread(HeldAdjacency const& held, Array<std::int64_t> const& offsets,
                 py::object const& sources, Array<double> const& scores,
                 Array<std::int64_t> const& target_offsets, py::object const& targets, int most) {
  TakenKeys const source_keys(sources);
  TakenKeys const target_keys(targets);
  ByQuery<KeyValue> const from = held.of_queries(offsets, source_keys);
  ByQuery<KeyValue> const to = held.of_queries(target_offsets, target_keys);
  std::vector<double> out;
  {
    NativeRun const run;
    out = spread_by_query(held.adjacency, from, span_of(scores), to, most, held.threads);
  }
  return give(std::move(out));
}

// Keeps the objects that a NeighboursByQuery refers to.
class HeldNeighbours {
 public:
  HeldNeighbours(std::shared_ptr<HeldAdjacency> adjacency, Array<std::int64_t> const& offsets,
                 py::object const& keys)
      : adjacency_(std::move(adjacency)), keys_(keys) {
    ByQuery<KeyValue> of_queries = adjacency_->of_queries(offsets, keys_);
    NativeRun const run;
    found_.emplace(adjacency_->adjacency, std::move(of_queries), adjacency_->threads);
  }

  py::array counts() const { return give(found_->counts()); }

  py::tuple best(Array<std::int64_t> const& score_offsets, Array<std::uint32_t> const& segment,
                 Array<std::uint32_t> const& row, Array<double> const& score,
                 Array<std::int64_t> const& hidden_offsets, py::object const& hidden,
                 std::size_t n) const {
    require(segment.size() == row.size() && score.size() == row.size(), "one score a place");
    std::vector<Adjacency::ScoredEdge> edges;
    for (py::ssize_t i = 0; i < row.size(); ++i)
      edges.push_back({{segment.data()[i], row.data()[i]}, score.data()[i]});
    ByQuery<Adjacency::ScoredEdge> const scores(found_->n_queries(), span_of(score_offsets), edges);
    TakenKeys const hidden_keys(hidden);
    ByQuery<KeyValue> const others = adjacency_->of_queries(hidden_offsets, hidden_keys);
    NeighboursByQuery::Best best;
    {
      NativeRun const run;
      best = found_->best(scores, others, n);
    }
    return py::make_tuple(give(std::move(best.offsets)), give_keys(best.keys),
                          give(std::move(best.segment)), give(std::move(best.row)),
                          give(std::move(best.score)));
  }

 private:
  std::shared_ptr<HeldAdjacency> adjacency_;
  TakenKeys keys_;
  std::optional<NeighboursByQuery> found_;  // made without the GIL
};

}  // namespace

void bind_graph(py::module_& parent) {
  auto m = parent.attr("arms").cast<py::module_>();
  py::class_<HeldAdjacency, std::shared_ptr<HeldAdjacency>>(
      m, "Adjacency", "A graph over documents, as each query of two requests sees it.")
      .def(py::init(&connect),
           "Read the graph of two snapshots. participants: the attribute of an edge that lists its "
           "keys; the requests hold the same queries, and their scopes alone are read.",
           py::arg("edges").none(false), py::arg("edge_request").none(false),
           py::arg("participants"), py::arg("nodes").none(false),
           py::arg("node_request").none(false))
      .def("distances", &distances,
           "Return each query's (keys, hops) of the nodes within `most` hops of a source.",
           py::arg("offsets"), py::arg("sources"), py::arg("most"))
      .def("spread", &spread,
           "Return for each target the largest score x 2^-hops over its query's sources; float64.",
           py::arg("offsets"), py::arg("sources"), py::arg("scores"), py::arg("target_offsets"),
           py::arg("targets"), py::arg("most"));
  py::class_<HeldNeighbours>(m, "Neighbours", "The nodes one hop from each query's keys.")
      .def(
          py::init<std::shared_ptr<HeldAdjacency>, Array<std::int64_t> const&, py::object const&>(),
          "Find the neighbours: query q has the keys from offsets[q] to offsets[q + 1].",
          py::arg("adjacency").none(false), py::arg("offsets"), py::arg("keys"))
      .def_property_readonly(
          "counts", &HeldNeighbours::counts,
          "The number of neighbours of each query's keys, counted once per edge.")
      .def("best", &HeldNeighbours::best,
           "Return each key's n best neighbours: offsets, keys, edge segment, edge row, score. "
           "Each neighbour occurs once, with its best edge, ordered by (score desc, key). The keys "
           "of the query and hidden keys are left out.",
           py::arg("score_offsets"), py::arg("segment"), py::arg("row"), py::arg("score"),
           py::arg("hidden_offsets"), py::arg("hidden"), py::arg("n"));
}

}  // namespace hyrecall::bindings
