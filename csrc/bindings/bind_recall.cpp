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
  std::vector<QueryCandidates> of_queries;
};

py::tuple statistics_of(HeldStatistics const& held, std::size_t arm, std::size_t query) {
  QueryStatistics const& one = held.values->at(arm).at(query);
  return py::make_tuple(one.n_docs, one.total_length, one.squared_length,
                        std::vector(one.doc_freqs.begin(), one.doc_freqs.end()));
}

HeldStatistics sum_statistics(std::vector<std::shared_ptr<HeldStatistics>> const& parts) {
  std::vector<Statistics const*> all;
  for (auto const& part : take_all(parts)) all.push_back(part->values.get());
  return {std::make_shared<Statistics const>(add_statistics(all))};
}

HeldExecution execute(std::shared_ptr<Snapshot> snapshot, std::shared_ptr<BatchRequest> request) {
  request->is_read = true;
  NativeRun const run;
  auto execution = std::make_unique<Execution>(*snapshot, *request);
  return {std::move(snapshot), std::move(request), std::move(execution)};
}

HeldStatistics statistics_of_part(HeldExecution const& held) {
  return {held.execution->shared_statistics()};
}

HeldCandidates find_candidates(HeldExecution const& held, HeldStatistics const& statistics) {
  NativeRun const run;
  return {held.execution->candidates(*statistics.values)};
}

py::object give_leaves(HeldExecution const& held, std::size_t arm, std::size_t query) {
  auto const& analysed = held.execution->queries(arm).at(query);
  if (!analysed) return py::none();
  py::list out;
  for (Leaf const& leaf : analysed->leaves)
    out.append(py::make_tuple(leaf.label(), leaf.multiplicity));
  return out;
}

std::vector<std::size_t> empty_queries(HeldExecution const& held, std::size_t arm) {
  return held.execution->empty_queries(arm);
}

std::vector<std::size_t> host_queries(HeldExecution const& held, std::size_t arm) {
  std::vector<bool> const on_host = held.execution->texts_on_host().at(arm);
  std::vector<std::size_t> out;
  for (std::size_t q = 0; q < on_host.size(); ++q) {
    if (on_host[q]) out.push_back(q);
  }
  return out;
}

bool matches_query(HeldExecution const& held, std::size_t arm, std::size_t query,
                   std::uint32_t segment, Row row) {
  return held.execution->matches(arm, query, {segment, row});
}

std::vector<std::uint32_t> leaf_freqs(HeldExecution const& held, std::size_t arm, std::size_t query,
                                      std::uint32_t segment, Row row) {
  return held.execution->leaf_freqs(arm, query, {segment, row});
}

py::dict give_reply(std::unique_ptr<ReplyArrays> reply, bool has_evidence) {
  ReplyArrays const& arrays = *reply;
  py::capsule const owner(reply.release(),
                          [](void* held) { delete static_cast<ReplyArrays*>(held); });
  auto const view = [&]<typename T>(std::vector<T> const& values) {
    return give_view(std::span(values), owner);
  };
  using py::literals::operator""_a;
  py::dict out("offsets"_a = view(arrays.offsets), "part"_a = view(arrays.part),
               "segment"_a = view(arrays.segment), "row"_a = view(arrays.row),
               "rank"_a = view(arrays.rank), "score"_a = view(arrays.score),
               "arm_scores"_a = view(arrays.arm_scores), "arm_ranks"_a = view(arrays.arm_ranks),
               "scales"_a = view(arrays.scales), "list_sizes"_a = view(arrays.list_sizes));
  if (has_evidence) {
    out["fused"] = view(arrays.fused);
    out["addends"] = view(arrays.addends);
    out["near_segment"] = view(arrays.near_segment);
    out["near_row"] = view(arrays.near_row);
  }
  return out;
}

py::dict merge_candidates(BatchRequest const& request,
                          std::vector<std::shared_ptr<HeldCandidates>> const& parts) {
  auto reply = std::make_unique<ReplyArrays>();
  auto const given = take_all(parts);
  {
    NativeRun const run;
    std::vector<std::vector<QueryCandidates> const*> all;
    for (auto const& part : given) all.push_back(&part->of_queries);
    *reply = merge(request, all);
  }
  return give_reply(std::move(reply), request.evidence.has_value());
}

py::tuple make_hits(HeldExecution const& held, HeldStatistics const& statistics) {
  auto reply = std::make_unique<ReplyArrays>();
  double seconds = 0.0;
  {
    NativeRun const run;
    TimedReply made = held.execution->hits(*statistics.values);
    *reply = std::move(made.arrays);
    seconds = made.seconds;
  }
  return py::make_tuple(give_reply(std::move(reply), held.request->evidence.has_value()), seconds);
}

}  // namespace

void bind_recall(py::module_& m) {
  py::class_<HeldStatistics, std::shared_ptr<HeldStatistics>>(
      m, "Statistics", "The integers that BM25 counts, of each query in each lexical arm.")
      .def("of", &statistics_of,
           "Return (documents, total length, document frequency per leaf) of one query.",
           py::arg("arm"), py::arg("query"))
      .def_static("add", &sum_statistics, "Sum the statistics of the parts of an index.",
                  py::arg("parts"));

  py::class_<HeldCandidates, std::shared_ptr<HeldCandidates>>(
      m, "Candidates", "Each query's candidates in one part of an index.");

  py::class_<HeldExecution>(m, "Execution", "One request on one snapshot.")
      .def(py::init(&execute), "Find what each query may see, its postings, and their statistics.",
           py::arg("snapshot").none(false), py::arg("request").none(false))
      .def("statistics", &statistics_of_part, "Return the statistics of this part.")
      .def("candidates", &find_candidates,
           "Return each arm's best documents, with every arm's score of each.",
           py::arg("statistics"))
      .def("hits", &make_hits,
           "Return what merge() makes of the candidates of this part alone, and how many seconds "
           "it took to join, complete and fuse the arms' lists.",
           py::arg("statistics"))
      .def("leaves", &give_leaves,
           "Return (label, boost x occurrences) of the query's leaves, in summation order; None "
           "without a query.",
           py::arg("arm"), py::arg("query"))
      .def("empty_queries", &empty_queries, "Return the queries whose text has no token.",
           py::arg("arm"))
      .def("host_queries", &host_queries,
           "Return the queries that the CPU searches: all of them, unless the snapshot has the "
           "arm's postings on a device.",
           py::arg("arm"))
      .def("matches", &matches_query,
           "Return whether a document that this execution returned matches the text query.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def("leaf_freqs", &leaf_freqs,
           "Return each leaf's term frequency in a document that this execution returned.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"));

  m.def(
      "merge", &merge_candidates,
      "Join the candidates of the parts: rank, fuse, and cut offset and limit. Returns the arrays "
      "offsets, part, segment, row, rank, score, arm_scores, arm_ranks, scales, list_sizes; with "
      "evidence also fused, addends, near_segment, near_row.",
      py::arg("request"), py::arg("parts"));
}

}  // namespace hyrecall::bindings
