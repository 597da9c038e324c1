// Binds the parts of other arms: audiences and tags.
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
#include "engine/related/incidence.hpp"
#include "engine/related/listed.hpp"
#include "engine/related/newest.hpp"
#include "engine/related/tags.hpp"
#include "engine/scope/locate.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// Documents of a batch, concatenated: query q has those from offsets[q] to offsets[q + 1].
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

// Keeps the objects that an Audience refers to. Its scopes are those of the request.
class HeldAudience {
 public:
  HeldAudience(std::shared_ptr<Snapshot> snapshot, std::shared_ptr<BatchRequest> request)
      : snapshot_(std::move(snapshot)),
        request_(std::move(request)),
        scopes_(resolve_scopes(*snapshot_, *request_)),
        groups_(*request_),
        audience_(*snapshot_, *request_, scopes_, groups_) {}

  AudienceView view() const { return {*snapshot_, *request_, scopes_, audience_}; }

  std::size_t n_groups() const { return audience_.n_groups(); }
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
                    std::size_t n, bool with_beside) const {
    auto const results =
        listed_by_query(request_->n_queries, span_of(offsets), span_of(segment), span_of(row), {});
    FlatDocs flat;
    {
      NativeRun const run;
      for (auto const& docs : related_documents(view(), results, attribute, n, with_beside))
        flat.add(docs);
    }
    return std::move(flat).give_all();
  }

 private:
  std::shared_ptr<Snapshot> snapshot_;
  std::shared_ptr<BatchRequest> request_;
  ResolvedScopes scopes_;
  QueryGroups groups_;
  Audience audience_;
};

std::unique_ptr<HeldAudience> find_audience(std::shared_ptr<Snapshot> snapshot,
                                            std::shared_ptr<BatchRequest> request) {
  NativeRun const run;
  return std::make_unique<HeldAudience>(std::move(snapshot), std::move(request));
}

}  // namespace

void bind_arms(py::module_& parent) {
  py::module_ m = parent.def_submodule("arms", "Native parts of arms other than text and vectors.");
  py::class_<HeldAudience>(m, "Audience",
                           "The rows that each distinct (scope, filter) of a request sees.")
      .def(py::init(&find_audience), "Find the rows that the queries of a request may see.",
           py::arg("snapshot").none(false), py::arg("request").none(false))
      .def_property_readonly("n_groups", &HeldAudience::n_groups,
                             "The number of groups of queries that see the same rows.")
      .def_property_readonly("group_of", &HeldAudience::group_of, "The group of each query.")
      .def("rows", &HeldAudience::rows,
           "Return (segment, row) of every row that the queries of a group may see.",
           py::arg("group"))
      .def("newest", &HeldAudience::newest,
           "Return each query's n newest rows by an attribute: offsets, segment, row, score. The "
           "score is 1 / n for the n-th distinct value, and 0 without a value.",
           py::arg("attribute"), py::arg("n"), py::arg("with_missing"))
      .def("locate", &HeldAudience::locate,
           "Return (number of the key, segment, row) of every visible document with a key.",
           py::arg("keys"), py::arg("query_of"))
      .def("tags", &HeldAudience::tags,
           "Return each query's documents near its tags: offsets, segment, row, score.",
           py::arg("attribute"), py::arg("analyzer").none(false), py::arg("queries"),
           py::arg("hops"), py::arg("partial"), py::arg("depth"))
      .def("related", &HeldAudience::related,
           "Return each query's documents with the most tags in common with its results: offsets, "
           "segment, row, score (the number of common tags). with_beside: documents of tags beside "
           "those of the results follow, with score 0.",
           py::arg("attribute"), py::arg("offsets"), py::arg("segment"), py::arg("row"),
           py::arg("n"), py::arg("with_beside"));
  m.def("place_score", &place_score, "Return 1 / place.", py::arg("place"),
        py::call_guard<FpEnvGuard>());
}

}  // namespace hyrecall::bindings
