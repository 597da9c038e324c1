// What the other arms read: who may see which rows, tags, and the graph of edges.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/formulas.hpp"
#include "core/fp_env.hpp"
#include "core/parallel.hpp"
#include "engine/related/adjacency.hpp"
#include "engine/related/listed.hpp"
#include "engine/related/newest.hpp"
#include "engine/related/tags.hpp"
#include "engine/scope/locate.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// Documents of a batch, back to back: query q has those from offsets[q] to offsets[q + 1].
struct FlatDocs {
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;
  std::vector<float> score;

  void add(std::vector<Candidate> const& docs) {
    for (Candidate const& doc : docs) {
      segment.push_back(doc.doc.segment);
      row.push_back(doc.doc.row);
      score.push_back(doc.score);
    }
    offsets.push_back(static_cast<std::int64_t>(row.size()));
  }
  py::tuple give_all() && {
    return py::make_tuple(give(std::move(offsets)), give(std::move(segment)), give(std::move(row)),
                          give(std::move(score)));
  }
};

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

// Keeps what an Audience refers to. Its scopes are the request's: it has no door of its own.
class HeldAudience {
 public:
  HeldAudience(std::shared_ptr<Snapshot> snapshot, std::shared_ptr<Request> request)
      : snapshot_(std::move(snapshot)),
        request_(std::move(request)),
        scopes_(resolve_scopes(*snapshot_, *request_)),
        groups_(*request_),
        audience_(*snapshot_, *request_, scopes_, groups_) {}

  Audience const& audience() const { return audience_; }
  Request const& request() const { return *request_; }
  AudienceView view() const { return {*snapshot_, *request_, scopes_, audience_}; }

  py::array group_of() const {
    std::vector<std::uint32_t> out;
    for (std::size_t q = 0; q < request_->n_queries; ++q) out.push_back(audience_.group_of(q));
    return give(std::move(out));
  }

  py::tuple rows(std::size_t group) const {
    require(group < audience_.n_groups(), "a known group");
    std::vector<std::uint32_t> segments;
    std::vector<Row> rows;
    {
      NativeRun const run;
      for_each_row(audience_.tiles(group), [&](DocRef doc) {
        segments.push_back(doc.segment);
        rows.push_back(doc.row);
      });
    }
    return py::make_tuple(give(std::move(segments)), give(std::move(rows)));
  }

  py::tuple newest(std::size_t attribute, std::size_t n, bool with_missing) const {
    FlatDocs flat;
    {
      NativeRun const run;
      auto const groups =
          newest_candidates(*snapshot_, audience_, attribute, n, with_missing, request_->threads);
      for (std::size_t q = 0; q < request_->n_queries; ++q) flat.add(groups[audience_.group_of(q)]);
    }
    return std::move(flat).give_all();
  }

  py::tuple locate(py::object const& keys, Array<std::uint32_t> const& query_of) const {
    KeyColumn const column = take_keys(keys);
    std::span<std::uint32_t const> const queries = span_of(query_of);
    std::vector<std::int64_t> which;
    std::vector<std::uint32_t> segments;
    std::vector<Row> rows;
    {
      NativeRun const run;
      for (LocatedDoc const& found :
           locate_visible(*snapshot_, *request_, scopes_, audience_, column, queries)) {
        which.push_back(static_cast<std::int64_t>(found.key));
        segments.push_back(found.doc.segment);
        rows.push_back(found.doc.row);
      }
    }
    return py::make_tuple(give(std::move(which)), give(std::move(segments)), give(std::move(rows)));
  }

  py::tuple tags(std::size_t attribute, std::shared_ptr<text::Analyzer> const& analyzer,
                 std::vector<std::optional<std::string>> const& queries, int hops, bool partial,
                 std::size_t depth) const {
    require(queries.size() == request_->n_queries, "one text a query");
    require(hops >= 0 && hops < Incidence::kFar, "fewer than 255 hops");
    FlatDocs flat;
    {
      NativeRun const run;
      TagParams const params{attribute, hops, partial, depth};
      for (auto const& docs : tag_candidates(view(), *analyzer, queries, params)) flat.add(docs);
    }
    return std::move(flat).give_all();
  }

  py::tuple related(std::size_t attribute, Array<std::int64_t> const& offsets,
                    Array<std::uint32_t> const& segment, Array<std::uint32_t> const& row,
                    std::size_t n) const {
    std::span<std::int64_t const> const bounds = span_of(offsets);
    check_parts(bounds, request_->n_queries, static_cast<std::size_t>(row.size()));
    require(segment.size() == row.size(), "one row an entry");
    std::vector<std::vector<ListedDoc>> results(request_->n_queries);
    for (std::size_t q = 0; q < results.size(); ++q) {
      for (auto i = bounds[q]; i < bounds[q + 1]; ++i)
        results[q].push_back({{segment.data()[i], row.data()[i]}, 0.0f});
    }
    FlatDocs flat;
    {
      NativeRun const run;
      for (auto const& docs : related_documents(view(), results, attribute, n)) flat.add(docs);
    }
    return std::move(flat).give_all();
  }

 private:
  std::shared_ptr<Snapshot> snapshot_;
  std::shared_ptr<Request> request_;
  ResolvedScopes scopes_;
  QueryGroups groups_;
  Audience audience_;
};

// Keeps what an Adjacency refers to.
class HeldAdjacency {
 public:
  HeldAdjacency(std::shared_ptr<Snapshot> edges, std::shared_ptr<Request> edge_request,
                std::size_t participants, std::shared_ptr<Snapshot> nodes,
                std::shared_ptr<Request> node_request)
      : edges_(std::move(edges)),
        nodes_(std::move(nodes)),
        threads_(edge_request->threads),
        adjacency_(*edges_, *edge_request, participants, *nodes_, *node_request) {}

  // Per query (keys, hops) of all nodes near its sources.
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

  // For each key: the nodes one hop away, with the edge that leads there.
  py::list neighbours(Array<std::uint32_t> const& query_of, py::object const& keys) const {
    KeyColumn const column = take_keys(keys);
    std::vector<KeyValue> const values = values_of(column);
    std::span<std::uint32_t const> const queries = span_of(query_of);
    require(values.size() == queries.size(), "one query a key");
    for (std::uint32_t q : queries) require(q < adjacency_.n_queries(), "a known query");
    std::vector<std::vector<Adjacency::Neighbour>> found(values.size());
    {
      NativeRun const run;
      parallel_for(values.size(), threads_, [&](int, std::size_t i) {
        found[i] = adjacency_.neighbours(queries[i], values[i]);
      });
    }
    py::list out;
    for (auto const& neighbours : found) {
      std::vector<KeyValue> near;
      std::vector<std::uint32_t> segments;
      std::vector<Row> rows;
      for (Adjacency::Neighbour const& neighbour : neighbours) {
        near.push_back(neighbour.key);
        segments.push_back(neighbour.edge.segment);
        rows.push_back(neighbour.edge.row);
      }
      out.append(py::make_tuple(give_keys(near), give(std::move(segments)), give(std::move(rows))));
    }
    return out;
  }

 private:
  static std::span<KeyValue const> part(std::vector<KeyValue> const& keys,
                                        std::span<std::int64_t const> bounds, std::size_t q) {
    return std::span(keys).subspan(static_cast<std::size_t>(bounds[q]),
                                   static_cast<std::size_t>(bounds[q + 1] - bounds[q]));
  }

  std::shared_ptr<Snapshot> edges_;
  std::shared_ptr<Snapshot> nodes_;
  int threads_;
  Adjacency adjacency_;
};

}  // namespace

void bind_arms(py::module_& parent) {
  py::module_ m = parent.def_submodule("arms", "What arms beside text and vectors read.");
  py::class_<HeldAudience>(m, "Audience")
      .def(py::init([](std::shared_ptr<Snapshot> snapshot, std::shared_ptr<Request> request) {
             NativeRun const run;
             return std::make_unique<HeldAudience>(std::move(snapshot), std::move(request));
           }),
           py::arg("snapshot").none(false), py::arg("request").none(false))
      .def_property_readonly("n_groups",
                             [](HeldAudience const& held) { return held.audience().n_groups(); })
      .def_property_readonly("group_of", &HeldAudience::group_of)
      .def("rows", &HeldAudience::rows,
           "(segment, row) of every row that the queries of a group may see.", py::arg("group"))
      .def("newest", &HeldAudience::newest,
           "Per query the n newest rows by an attribute: offsets, segment, row, score. Score is 1 "
           "/ place among the distinct values, 0 without a value.",
           py::arg("attribute"), py::arg("n"), py::arg("with_missing"))
      .def("locate", &HeldAudience::locate,
           "(which, segment, row) of every visible document with one of the keys.", py::arg("keys"),
           py::arg("query_of"))
      .def("tags", &HeldAudience::tags,
           "Per query the documents near the tags it names: offsets, segment, row, score.",
           py::arg("attribute"), py::arg("analyzer").none(false), py::arg("queries"),
           py::arg("hops"), py::arg("partial"), py::arg("depth"))
      .def("related", &HeldAudience::related,
           "Per query the documents that share most tags with its results: offsets, segment, row, "
           "score (how many).",
           py::arg("attribute"), py::arg("offsets"), py::arg("segment"), py::arg("row"),
           py::arg("n"));
  py::class_<HeldAdjacency>(m, "Adjacency")
      .def(py::init([](std::shared_ptr<Snapshot> edges, std::shared_ptr<Request> edge_request,
                       std::size_t participants, std::shared_ptr<Snapshot> nodes,
                       std::shared_ptr<Request> node_request) {
             NativeRun const run;
             return std::make_unique<HeldAdjacency>(std::move(edges), std::move(edge_request),
                                                    participants, std::move(nodes),
                                                    std::move(node_request));
           }),
           py::arg("edges").none(false), py::arg("edge_request").none(false),
           py::arg("participants"), py::arg("nodes").none(false),
           py::arg("node_request").none(false))
      .def("distances", &HeldAdjacency::distances,
           "Per query (keys, hops) of every node within `most` hops of the nearest source.",
           py::arg("offsets"), py::arg("sources"), py::arg("most"))
      .def("spread", &HeldAdjacency::spread,
           "For each target the largest score x 2^-hops over its query's sources; float64.",
           py::arg("offsets"), py::arg("sources"), py::arg("scores"), py::arg("target_offsets"),
           py::arg("targets"), py::arg("most"))
      .def("neighbours", &HeldAdjacency::neighbours,
           "For each key (keys, edge segment, edge row) of the nodes one hop away.",
           py::arg("query_of"), py::arg("keys"));
  m.def("place_score", &place_score, "1 / place.", py::arg("place"), py::call_guard<FpEnvGuard>());
}

}  // namespace hyrecall::bindings
