// Binds the rows that match a request: how many there are, their order, the values they have.
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
#include "core/parallel.hpp"
#include "engine/recall.hpp"
#include "engine/related/facets.hpp"
#include "engine/related/ordered.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// The rows that one query matches, with the snapshot that they lie in.
class HeldRows {
 public:
  HeldRows(std::shared_ptr<Snapshot> snapshot, GroupTiles tiles)
      : snapshot_(std::move(snapshot)), tiles_(std::move(tiles)) {}

  std::int64_t count() const {
    std::int64_t n = 0;
    for (auto const& of_segment : tiles_)
      for (SelectedTile const& one : of_segment) n += one.mask.count();
    return n;
  }

  py::tuple ordered(std::vector<std::pair<std::size_t, bool>> const& keys, std::size_t n) const {
    std::vector<std::uint32_t> segments;
    std::vector<Row> rows;
    {
      NativeRun const run;
      std::vector<SortKey> own;
      for (auto const& [attribute, descending] : keys) own.push_back({attribute, descending});
      for (DocRef const doc : ordered_rows(*snapshot_, tiles_, own, n)) {
        segments.push_back(doc.segment);
        rows.push_back(doc.row);
      }
    }
    return py::make_tuple(give(std::move(segments)), give(std::move(rows)));
  }

  py::tuple values(std::size_t attribute) const {
    ValueCounts found;
    {
      NativeRun const run;
      found = count_values(*snapshot_, tiles_, attribute);
    }
    py::list texts;
    for (std::string_view const text : found.texts)
      texts.append(py::bytes(text.data(), text.size()));
    return py::make_tuple(give(std::move(found.codes)), texts, give(std::move(found.counts)));
  }

  py::array between(std::size_t attribute, std::vector<std::int64_t> const& edges) const {
    std::vector<std::int64_t> counts;
    {
      NativeRun const run;
      counts = count_between(*snapshot_, tiles_, attribute, edges);
    }
    return give(std::move(counts));
  }

 private:
  std::shared_ptr<Snapshot> snapshot_;
  GroupTiles tiles_;
};

class HeldMatches {
 public:
  HeldMatches(std::shared_ptr<Snapshot> snapshot, std::shared_ptr<BatchRequest> request)
      : snapshot_(std::move(snapshot)),
        request_(std::move(request)),
        execution_(*snapshot_, *request_),
        groups_(*request_),
        audiences_(execution_.audiences(groups_)) {
    execution_.read_guests();
  }

  py::array counts() const {
    std::vector<std::int64_t> out(request_->n_queries);
    {
      NativeRun const run;
      parallel_for(out.size(), request_->threads, [&](int, std::size_t query) {
        out[query] = HeldRows(snapshot_, execution_.matched(query, audiences_)).count();
      });
    }
    return give(std::move(out));
  }

  std::vector<std::size_t> empty_queries(std::size_t arm) const {
    return execution_.empty_queries(arm);
  }

  // As (query, number of the reason).
  std::vector<std::pair<std::size_t, int>> refused_queries(std::size_t arm) const {
    std::vector<std::pair<std::size_t, int>> out;
    for (auto const& [query, why] : execution_.refused_queries(arm))
      out.emplace_back(query, static_cast<int>(why));
    return out;
  }

  std::unique_ptr<HeldRows> rows(std::size_t query) const {
    NativeRun const run;
    return std::make_unique<HeldRows>(snapshot_, execution_.matched(query, audiences_));
  }

 private:
  std::shared_ptr<Snapshot> snapshot_;
  std::shared_ptr<BatchRequest> request_;
  Execution execution_;
  RequestGroups groups_;
  Audiences audiences_;
};

std::unique_ptr<HeldMatches> find_matches(std::shared_ptr<Snapshot> snapshot,
                                          std::shared_ptr<BatchRequest> request) {
  request->is_read = true;
  NativeRun const run;
  return std::make_unique<HeldMatches>(std::move(snapshot), std::move(request));
}

}  // namespace

void bind_matches(py::module_& m) {
  py::class_<HeldRows>(m, "MatchedRows", "The rows that one query matches.")
      .def("count", &HeldRows::count, "Return how many they are.")
      .def("ordered", &HeldRows::ordered,
           "Return (segment, row) of the first n by keys of (attribute, whether it descends), then "
           "by seq; those without a value come last.",
           py::arg("keys"), py::arg("n"))
      .def("values", &HeldRows::values,
           "Return (codes, texts, counts) of an attribute's distinct values, most frequent first.",
           py::arg("attribute"))
      .def("between", &HeldRows::between,
           "Return how many have a code that exactly 0, 1, ... of the rising edges do not exceed.",
           py::arg("attribute"), py::arg("edges"));
  py::class_<HeldMatches>(m, "Matches", "The rows that the queries of a request match.")
      .def(py::init(&find_matches), "Find them, whatever their scores, the floors and the depth.",
           py::arg("snapshot").none(false), py::arg("request").none(false))
      .def("counts", &HeldMatches::counts, "Return how many rows each query matches.")
      .def("rows", &HeldMatches::rows, "Return the rows of one query.", py::arg("query"))
      .def("empty_queries", &HeldMatches::empty_queries, "As of an Execution.", py::arg("arm"))
      .def("refused_queries", &HeldMatches::refused_queries, "As of an Execution.", py::arg("arm"));
}

}  // namespace hyrecall::bindings
