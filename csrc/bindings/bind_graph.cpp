// Binds graphs of edges: distances between nodes, and the neighbours of nodes.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/fp_env.hpp"
#include "core/parallel.hpp"
#include "engine/related/adjacency.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

std::vector<KeyValue> values_of(KeyColumn const& keys) {
  std::vector<KeyValue> out;
  for (std::size_t i = 0; i < n_keys(keys); ++i) out.push_back(key_at(keys, i));
  return out;
}

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

// The entries of query q in a batch.
template <typename T>
std::span<T const> part(std::vector<T> const& entries, std::span<std::int64_t const> bounds,
                        std::size_t q) {
  return std::span(entries).subspan(static_cast<std::size_t>(bounds[q]),
                                    static_cast<std::size_t>(bounds[q + 1] - bounds[q]));
}

// Keeps the objects that an Adjacency refers to.
class HeldAdjacency {
 public:
  HeldAdjacency(std::shared_ptr<Snapshot> edges, std::shared_ptr<BatchRequest> edge_request,
                std::size_t participants, std::shared_ptr<Snapshot> nodes,
                std::shared_ptr<BatchRequest> node_request)
      : edges_(std::move(edges)),
        nodes_(std::move(nodes)),
        threads_(edge_request->threads),
        adjacency_(*edges_, *edge_request, participants, *nodes_, *node_request) {}

  // For each query, (keys, hops) of all nodes near its sources.
  py::list distances(Array<std::int64_t> const& offsets, py::object const& sources,
                     int most) const {
    KeyColumn const column = take_keys(sources);
    std::vector<KeyValue> const keys = values_of(column);
    std::span<std::int64_t const> const bounds = span_of(offsets);
    check_parts(bounds, adjacency_.n_queries(), keys.size());
    require(most >= 0 && most < Incidence::kFar, "fewer than 255 hops");
    std::vector<std::vector<Adjacency::Hop>> found(adjacency_.n_queries());
    {
      NativeRun const run;
      parallel_for(found.size(), threads_, [&](int, std::size_t q) {
        found[q] = adjacency_.distances(q, part(keys, bounds, q), most);
      });
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

  py::array spread(Array<std::int64_t> const& offsets, py::object const& sources,
                   Array<double> const& scores, Array<std::int64_t> const& target_offsets,
                   py::object const& targets, int most) const {
    KeyColumn const column = take_keys(sources);
    KeyColumn const target_column = take_keys(targets);
    std::vector<KeyValue> const keys = values_of(column);
    std::vector<KeyValue> const wanted = values_of(target_column);
    std::span<std::int64_t const> const bounds = span_of(offsets);
    std::span<std::int64_t const> const target_bounds = span_of(target_offsets);
    check_parts(bounds, adjacency_.n_queries(), keys.size());
    check_parts(target_bounds, adjacency_.n_queries(), wanted.size());
    std::span<double const> const values = span_of(scores);
    require(values.size() == keys.size(), "one score a source");
    require(most >= 0 && most < Incidence::kFar, "fewer than 255 hops");
    std::vector<double> out(wanted.size());
    {
      NativeRun const run;
      parallel_for(adjacency_.n_queries(), threads_, [&](int, std::size_t q) {
        FpEnvGuard const fp;
        auto const begin = static_cast<std::size_t>(bounds[q]);
        std::vector<double> const spread = adjacency_.spread(
            q, part(keys, bounds, q),
            values.subspan(begin, static_cast<std::size_t>(bounds[q + 1]) - begin),
            part(wanted, target_bounds, q), most);
        std::copy(spread.begin(), spread.end(), out.begin() + target_bounds[q]);
      });
    }
    return give(std::move(out));
  }

  Adjacency const& adjacency() const { return adjacency_; }
  int threads() const { return threads_; }

 private:
  std::shared_ptr<Snapshot> edges_;
  std::shared_ptr<Snapshot> nodes_;
  int threads_;
  Adjacency adjacency_;
};

// The neighbours of each query's keys, found once, to count them and then to pick the best.
class HeldNeighbours {
 public:
  HeldNeighbours(std::shared_ptr<HeldAdjacency> adjacency, Array<std::int64_t> const& offsets,
                 py::object const& keys)
      : adjacency_(std::move(adjacency)), column_(take_keys(keys)), keys_(values_of(column_)) {
    std::span<std::int64_t const> const bounds = span_of(offsets);
    offsets_.assign(bounds.begin(), bounds.end());
    check_parts(offsets_, adjacency_->adjacency().n_queries(), keys_.size());
    NativeRun const run;
    found_.resize(keys_.size());
    std::vector<std::size_t> query_of;
    for (std::size_t q = 0; q < n_queries(); ++q) query_of.resize(offset(q + 1), q);
    parallel_for(keys_.size(), adjacency_->threads(), [&](int, std::size_t i) {
      found_[i] = adjacency_->adjacency().neighbours(query_of[i], keys_[i]);
    });
  }

  py::array counts() const {
    std::vector<std::int64_t> out(n_queries());
    for (std::size_t q = 0; q < n_queries(); ++q) {
      for (auto const& one : part(found_, offsets_, q)) out[q] += std::ssize(one);
    }
    return give(std::move(out));
  }

  py::tuple best(Array<std::int64_t> const& score_offsets, Array<std::uint32_t> const& segment,
                 Array<std::uint32_t> const& row, Array<double> const& score,
                 Array<std::int64_t> const& hidden_offsets, py::object const& hidden,
                 std::size_t n) const {
    KeyColumn const column = take_keys(hidden);
    std::vector<KeyValue> const others = values_of(column);
    std::span<std::int64_t const> const other_bounds = span_of(hidden_offsets);
    std::span<std::int64_t const> const score_bounds = span_of(score_offsets);
    check_parts(other_bounds, n_queries(), others.size());
    check_parts(score_bounds, n_queries(), static_cast<std::size_t>(row.size()));
    require(segment.size() == row.size() && score.size() == row.size(), "one score a place");
    std::vector<Adjacency::ScoredEdge> scores;
    for (py::ssize_t i = 0; i < row.size(); ++i)
      scores.push_back({{segment.data()[i], row.data()[i]}, score.data()[i]});
    std::vector<std::int64_t> offsets{0};
    std::vector<KeyValue> keys;
    std::vector<std::uint32_t> segments;
    std::vector<Row> rows;
    std::vector<double> values;
    {
      NativeRun const run;
      std::vector<std::vector<std::vector<Adjacency::BestNeighbour>>> best(n_queries());
      parallel_for(n_queries(), adjacency_->threads(), [&](int, std::size_t q) {
        auto const own_scores = part(scores, score_bounds, q);
        auto const own = part(keys_, offsets_, q);
        auto const excluded = part(others, other_bounds, q);
        std::vector<KeyValue> all(own.begin(), own.end());
        all.insert(all.end(), excluded.begin(), excluded.end());
        best[q] = adjacency_->adjacency().best_neighbours(
            part(found_, offsets_, q), {own_scores.begin(), own_scores.end()}, std::move(all), n);
      });
      for (auto const& of_query : best) {
        for (auto const& of_key : of_query) {
          for (Adjacency::BestNeighbour const& one : of_key) {
            keys.push_back(one.key);
            segments.push_back(one.edge.segment);
            rows.push_back(one.edge.row);
            values.push_back(one.score);
          }
          offsets.push_back(std::ssize(rows));
        }
      }
    }
    return py::make_tuple(give(std::move(offsets)), give_keys(keys), give(std::move(segments)),
                          give(std::move(rows)), give(std::move(values)));
  }

 private:
  std::size_t n_queries() const { return offsets_.size() - 1; }
  std::size_t offset(std::size_t q) const { return static_cast<std::size_t>(offsets_[q]); }

  std::shared_ptr<HeldAdjacency> adjacency_;
  KeyColumn column_;
  std::vector<KeyValue> keys_;  // of the column
  std::vector<std::int64_t> offsets_;
  std::vector<std::vector<Adjacency::Neighbour>> found_;  // [n_keys]
};

}  // namespace

void bind_graph(py::module_& parent) {
  auto m = parent.attr("arms").cast<py::module_>();
  py::class_<HeldAdjacency, std::shared_ptr<HeldAdjacency>>(m, "Adjacency")
      .def(py::init([](std::shared_ptr<Snapshot> edges, std::shared_ptr<BatchRequest> edge_request,
                       std::size_t participants, std::shared_ptr<Snapshot> nodes,
                       std::shared_ptr<BatchRequest> node_request) {
             NativeRun const run;
             return std::make_shared<HeldAdjacency>(std::move(edges), std::move(edge_request),
                                                    participants, std::move(nodes),
                                                    std::move(node_request));
           }),
           py::arg("edges").none(false), py::arg("edge_request").none(false),
           py::arg("participants"), py::arg("nodes").none(false),
           py::arg("node_request").none(false))
      .def("distances", &HeldAdjacency::distances,
           "Return each query's (keys, hops) of the nodes within `most` hops of a source.",
           py::arg("offsets"), py::arg("sources"), py::arg("most"))
      .def("spread", &HeldAdjacency::spread,
           "Return for each target the largest score x 2^-hops over its query's sources; float64.",
           py::arg("offsets"), py::arg("sources"), py::arg("scores"), py::arg("target_offsets"),
           py::arg("targets"), py::arg("most"));
  py::class_<HeldNeighbours>(m, "Neighbours")
      .def(
          py::init<std::shared_ptr<HeldAdjacency>, Array<std::int64_t> const&, py::object const&>(),
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
