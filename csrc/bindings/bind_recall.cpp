// Binds the execution of a request on one part, and the merge of parts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "engine/recall.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// Opaque to Python, because nested vectors would be converted to lists.
struct HeldStatistics {
  std::shared_ptr<Statistics const> values;
};
struct HeldCandidates {
  std::vector<QueryCandidates> pools;
};

}  // namespace

void bind_recall(py::module_& m) {
  py::class_<HeldStatistics, std::shared_ptr<HeldStatistics>>(m, "Statistics")
      .def(
          "of",
          [](HeldStatistics const& held, std::size_t arm, std::size_t query) {
            QueryStatistics const& one = held.values->at(arm).at(query);
            return py::make_tuple(one.n_docs, one.total_length,
                                  std::vector(one.doc_freqs.begin(), one.doc_freqs.end()));
          },
          "(documents, total length, document frequency per leaf) of one query.", py::arg("arm"),
          py::arg("query"))
      .def_static(
          "add",
          [](std::vector<std::shared_ptr<HeldStatistics>> const& parts) {
            std::vector<Statistics const*> all;
            for (auto const& part : take_all(parts)) all.push_back(part->values.get());
            return std::make_shared<HeldStatistics>(
                HeldStatistics{std::make_shared<Statistics const>(add_statistics(all))});
          },
          py::arg("parts"));

  py::class_<HeldCandidates, std::shared_ptr<HeldCandidates>>(m, "Candidates");

  py::class_<HeldExecution>(m, "Execution")
      .def(py::init([](std::shared_ptr<Snapshot> snapshot, std::shared_ptr<BatchRequest> request) {
             request->is_read = true;
             NativeRun const run;
             auto execution = std::make_unique<Execution>(*snapshot, *request);
             return HeldExecution{std::move(snapshot), std::move(request), std::move(execution)};
           }),
           py::arg("snapshot").none(false), py::arg("request").none(false))
      .def("statistics",
           [](HeldExecution const& held) {
             return std::make_shared<HeldStatistics>(
                 HeldStatistics{held.execution->shared_statistics()});
           })
      .def(
          "candidates",
          [](HeldExecution const& held, HeldStatistics const& statistics) {
            NativeRun const run;
            return std::make_shared<HeldCandidates>(
                HeldCandidates{held.execution->candidates(*statistics.values)});
          },
          py::arg("statistics"))
      .def(
          "leaves",
          [](HeldExecution const& held, std::size_t arm, std::size_t query) -> py::object {
            auto const& analysed = held.execution->queries(arm).at(query);
            if (!analysed) return py::none();
            py::list out;
            for (Leaf const& leaf : analysed->leaves)
              out.append(py::make_tuple(leaf.label(), leaf.multiplicity));
            return out;
          },
          "Return (label, boost x occurrences) of the query's leaves, in summation order; None "
          "without a query.",
          py::arg("arm"), py::arg("query"))
      .def(
          "empty_queries",
          [](HeldExecution const& held, std::size_t arm) {
            std::vector<std::size_t> empty;
            auto const& queries = held.execution->queries(arm);
            for (std::size_t q = 0; q < queries.size(); ++q) {
              if (queries[q] && queries[q]->leaves.empty()) empty.push_back(q);
            }
            return empty;
          },
          "Return the queries whose text has no token.", py::arg("arm"))
      .def(
          "matches",
          [](HeldExecution const& held, std::size_t arm, std::size_t query, std::uint32_t segment,
             Row row) { return held.execution->matches(arm, query, {segment, row}); },
          "Return whether a document that this execution returned matches the text query.",
          py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def(
          "leaf_freqs",
          [](HeldExecution const& held, std::size_t arm, std::size_t query, std::uint32_t segment,
             Row row) { return held.execution->leaf_freqs(arm, query, {segment, row}); },
          "Return each leaf's term frequency in a document that this execution returned.",
          py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"));

  m.def(
      "merge",
      [](BatchRequest const& request, std::vector<std::shared_ptr<HeldCandidates>> const& parts) {
        auto hits = std::make_unique<ReplyArrays>();
        auto const given = take_all(parts);
        {
          NativeRun const run;
          std::vector<std::vector<QueryCandidates> const*> all;
          for (auto const& part : given) all.push_back(&part->pools);
          *hits = merge(request, all);
        }
        ReplyArrays const& h = *hits;
        py::capsule const owner(hits.release(),
                                [](void* held) { delete static_cast<ReplyArrays*>(held); });
        auto const view = [&]<typename T>(std::vector<T> const& values) {
          return give_view(std::span(values), owner);
        };
        using py::literals::operator""_a;
        return py::dict("offsets"_a = view(h.offsets), "part"_a = view(h.part),
                        "segment"_a = view(h.segment), "row"_a = view(h.row),
                        "rank"_a = view(h.rank), "score"_a = view(h.score),
                        "arm_scores"_a = view(h.arm_scores), "arm_ranks"_a = view(h.arm_ranks),
                        "scales"_a = view(h.scales), "list_sizes"_a = view(h.list_sizes));
      },
      py::arg("request"), py::arg("parts"));
}

}  // namespace hyrecall::bindings
