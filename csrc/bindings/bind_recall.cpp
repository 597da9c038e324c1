// Binds the execution of a request on one part, and the merge of parts.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/reply.hpp"
#include "bindings/take.hpp"
#include "engine/lexical/leaf_postings.hpp"
#include "engine/part_arrays.hpp"
#include "engine/recall.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

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

// As (query, number of the reason).
std::vector<std::pair<std::size_t, int>> refused_queries(HeldExecution const& held,
                                                         std::size_t arm) {
  std::vector<std::pair<std::size_t, int>> out;
  for (auto const& [query, why] : held.execution->refused_queries(arm))
    out.emplace_back(query, static_cast<int>(why));
  return out;
}

std::vector<std::pair<std::size_t, bool>> host_queries(HeldExecution const& held, std::size_t arm) {
  return held.execution->host_queries(arm);
}

bool matches_query(HeldExecution const& held, std::size_t arm, std::size_t query,
                   std::uint32_t segment, Row row) {
  return held.execution->matches(arm, query, {segment, row});
}

bool excludes_document(HeldExecution const& held, std::size_t arm, std::size_t query,
                       std::uint32_t segment, Row row) {
  return held.execution->excludes(arm, query, {segment, row});
}

std::vector<std::uint32_t> leaf_freqs(HeldExecution const& held, std::size_t arm, std::size_t query,
                                      std::uint32_t segment, Row row) {
  return held.execution->leaf_freqs(arm, query, {segment, row});
}

std::vector<std::tuple<std::size_t, std::uint32_t, float>> vector_pairs(
    HeldExecution const& held, std::size_t arm, std::size_t query, std::uint32_t segment, Row row) {
  std::vector<std::tuple<std::size_t, std::uint32_t, float>> out;
  for (auto const& [vector, met] : held.execution->vector_pairs(arm, query, {segment, row}))
    out.emplace_back(vector, met.vector, met.cosine);
  return out;
}

std::vector<std::tuple<py::bytes, float, float>> sparse_pairs(HeldExecution const& held,
                                                              std::size_t arm, std::size_t query,
                                                              std::uint32_t segment, Row row) {
  std::vector<std::tuple<py::bytes, float, float>> out;
  for (SparsePair const& one : held.execution->sparse_pairs(arm, query, {segment, row}))
    out.emplace_back(one.term, one.query, one.row);
  return out;
}

// [rows, columns] as [columns, rows].
template <typename T>
std::vector<T> transpose(std::vector<T> const& values, std::size_t n_columns) {
  std::vector<T> out(values.size());
  std::size_t const n_rows = n_columns == 0 ? 0 : values.size() / n_columns;
  for (std::size_t row = 0; row < n_rows; ++row)
    for (std::size_t column = 0; column < n_columns; ++column)
      out[column * n_rows + row] = values[row * n_columns + column];
  return out;
}

// Puts what evidence added into a reply's dictionary, an array for each part.
template <typename View>
void give_evidence(GivenReply const& reply, Evidence const& evidence, View const& view,
                   py::dict& out) {
  std::size_t const n_hits = reply.arrays.rank.size();
  auto const give = [&]<typename T>(std::string const& name, std::vector<T> const& columns,
                                    std::size_t at) {
    out[py::str(name)] = view(std::span(columns).subspan(at * n_hits, n_hits));
  };
  give("fused_score", reply.arrays.fused, 0);
  std::size_t const n = evidence.n_distances();
  for (std::size_t at = 0; at < n; ++at) {
    std::string const name = "near_" + std::to_string(at) + '_';
    give(name + "addend", reply.columns.addends, at);
    give(name + "segment", reply.columns.segment, at);
    give(name + "row", reply.columns.row, at);
  }
  give("neighbour_evidence", reply.columns.neighbours, 0);
  give("thread_evidence", reply.columns.addends, n);
  give("length_evidence", reply.columns.addends, n + 1);
  if (evidence.prior) give("prior_evidence", reply.columns.addends, n + 2);
}

// Takes one of the arrays that a part consists of.
template <typename T>
Array<T> take_part(py::dict const& arrays, char const* name) {
  if (!arrays.contains(name) || !py::isinstance<Array<T>>(arrays[name]))
    throw Error(ErrorCode::kDtype, name, "expected an array of the part's element type");
  return arrays[name].cast<Array<T>>();
}

py::dict arrays_of_statistics(HeldStatistics const& held) {
  auto made = arrays_of(*held.values);
  py::dict out;
  out["numbers"] = give(std::move(made.numbers));
  out["freq_ends"] = give(std::move(made.freq_ends));
  out["freqs"] = give(std::move(made.freqs));
  out["thread_ends"] = give(std::move(made.thread_ends));
  out["thread_freqs"] = give(std::move(made.thread_freqs));
  return out;
}

// The terms of each word that stands for several: (arm, query, leaf, {term: documents}).
py::list expansions_of(HeldStatistics const& held) {
  py::list out;
  for (std::size_t arm = 0; arm < held.values->size(); ++arm) {
    for (std::size_t q = 0; q < (*held.values)[arm].size(); ++q) {
      for (auto const& [leaf, terms] : (*held.values)[arm][q].expansions) {
        py::dict counts;
        for (auto const& [term, doc_freq] : terms) counts[py::bytes(term)] = doc_freq;
        out.append(py::make_tuple(arm, q, leaf, counts));
      }
    }
  }
  return out;
}

HeldStatistics statistics_from_arrays(py::dict const& arrays, std::size_t n_arms,
                                      std::size_t n_queries) {
  auto const take = [&](char const* name) { return take_part<std::int64_t>(arrays, name); };
  auto const numbers = take("numbers"), freq_ends = take("freq_ends"), freqs = take("freqs");
  auto const thread_ends = take("thread_ends"), thread_freqs = take("thread_freqs");
  return {std::make_shared<Statistics const>(
      to_statistics({span_of(numbers), span_of(freq_ends), span_of(freqs), span_of(thread_ends),
                     span_of(thread_freqs)},
                    n_arms, n_queries))};
}

py::dict arrays_of_candidates(HeldCandidates const& held) {
  auto made = arrays_of(held.of_queries);
  py::dict out;
  out["doc_ends"] = give(std::move(made.doc_ends));
  out["seq"] = give(std::move(made.seq));
  out["segment"] = give(std::move(made.segment));
  out["row"] = give(std::move(made.row));
  out["scores"] = give(std::move(made.scores));
  out["list_ends"] = give(std::move(made.list_ends));
  out["listed"] = give(std::move(made.listed));
  out["found"] = give(std::move(made.found));
  out["hidden"] = give(std::move(made.hidden));
  out["near"] = give(std::move(made.near));
  out["threads"] = give(std::move(made.threads));
  out["lengths"] = give(std::move(made.lengths));
  out["length_shares"] = give(std::move(made.length_shares));
  out["priors"] = give(std::move(made.priors));
  return out;
}

HeldCandidates candidates_from_arrays(py::dict const& arrays, BatchRequest const& request) {
  auto const doc_ends = take_part<std::int64_t>(arrays, "doc_ends");
  auto const seq = take_part<std::int64_t>(arrays, "seq");
  auto const segment = take_part<std::uint32_t>(arrays, "segment");
  auto const row = take_part<std::uint32_t>(arrays, "row");
  auto const scores = take_part<float>(arrays, "scores");
  auto const list_ends = take_part<std::int64_t>(arrays, "list_ends");
  auto const listed = take_part<std::uint32_t>(arrays, "listed");
  auto const found = take_part<std::int64_t>(arrays, "found");
  auto const hidden = take_part<std::uint8_t>(arrays, "hidden");
  auto const near = take_part<std::uint32_t>(arrays, "near");
  auto const threads = take_part<float>(arrays, "threads");
  auto const lengths = take_part<std::uint32_t>(arrays, "lengths");
  auto const length_shares = take_part<double>(arrays, "length_shares");
  auto const priors = take_part<double>(arrays, "priors");
  return {to_candidates(
      {span_of(doc_ends), span_of(seq), span_of(segment), span_of(row), span_of(scores),
       span_of(list_ends), span_of(listed), span_of(found), span_of(hidden), span_of(near),
       span_of(threads), span_of(lengths), span_of(length_shares), span_of(priors)},
      request)};
}

py::dict merge_candidates(BatchRequest const& request,
                          std::vector<std::shared_ptr<HeldCandidates>> const& parts) {
  std::shared_ptr<GivenReply const> reply;
  auto const given = take_all(parts);
  {
    NativeRun const run;
    std::vector<std::vector<QueryCandidates> const*> all;
    for (auto const& part : given) all.push_back(&part->of_queries);
    reply = std::make_shared<GivenReply>(merge(request, all), request.evidence);
  }
  return give_reply(std::move(reply), request.evidence);
}

py::tuple make_hits(HeldExecution const& held, HeldStatistics const& statistics) {
  std::shared_ptr<GivenReply const> reply;
  std::optional<Evidence> const& evidence = held.request->evidence;
  double seconds = 0.0;
  {
    NativeRun const run;
    TimedReply made = held.execution->hits(*statistics.values);
    reply = std::make_shared<GivenReply>(std::move(made.arrays), evidence);
    seconds = made.seconds;
  }
  return py::make_tuple(give_reply(std::move(reply), evidence), seconds);
}

}  // namespace

EvidenceColumns::EvidenceColumns(ReplyArrays const& arrays, Evidence const& evidence)
    : addends(transpose(arrays.addends, evidence.n_addends())),
      segment(transpose(arrays.near_segment, evidence.n_distances())),
      row(transpose(arrays.near_row, evidence.n_distances())) {
  std::size_t const n_hits = arrays.rank.size();
  neighbours.assign(n_hits, std::numeric_limits<double>::quiet_NaN());
  for (std::size_t distance = 0; distance < evidence.n_distances(); ++distance) {
    for (std::size_t hit = 0; hit < n_hits; ++hit) {
      double const addend = addends[distance * n_hits + hit];
      if (std::isnan(addend)) continue;
      neighbours[hit] = (std::isnan(neighbours[hit]) ? 0.0 : neighbours[hit]) + addend;
    }
  }
}

py::dict give_reply(std::shared_ptr<GivenReply const> reply,
                    std::optional<Evidence> const& evidence) {
  GivenReply const& given = *reply;
  ReplyArrays const& arrays = given.arrays;
  py::capsule const owner(new std::shared_ptr<GivenReply const>(std::move(reply)), [](void* held) {
    delete static_cast<std::shared_ptr<GivenReply const>*>(held);
  });
  auto const view = [&](auto const& values) { return give_view(std::span(values), owner); };
  using py::literals::operator""_a;
  py::dict out("offsets"_a = view(arrays.offsets), "part"_a = view(arrays.part),
               "segment"_a = view(arrays.segment), "row"_a = view(arrays.row),
               "rank"_a = view(arrays.rank), "score"_a = view(arrays.score),
               "arm_scores"_a = view(arrays.arm_scores), "arm_ranks"_a = view(arrays.arm_ranks),
               "scales"_a = view(arrays.scales), "list_sizes"_a = view(arrays.list_sizes));
  if (evidence) give_evidence(given, *evidence, view, out);
  return out;
}

void bind_recall(py::module_& m) {
  m.attr("MOST_EXPANDED") = kMostExpanded;
  py::class_<HeldStatistics, std::shared_ptr<HeldStatistics>>(
      m, "Statistics", "The integers that BM25 counts, of each query in each lexical arm.")
      .def("of", &statistics_of,
           "Return (documents, total length, document frequency per leaf) of one query.",
           py::arg("arm"), py::arg("query"))
      .def_static("add", &sum_statistics, "Sum the statistics of the parts of an index.",
                  py::arg("parts"))
      .def("arrays", &arrays_of_statistics, "Return them as arrays; see from_arrays().")
      .def(
          "expansions", &expansions_of,
          "Return for each word that stands for several terms its lexical arm, query and leaf, and "
          "how many documents hold each of these terms.")
      .def_static("from_arrays", &statistics_from_arrays,
                  "Make the statistics of so many arms and queries from their arrays: numbers (5 a "
                  "query of an arm), freq_ends, freqs, thread_ends, thread_freqs.",
                  py::arg("arrays"), py::arg("n_arms"), py::arg("n_queries"));

  py::class_<HeldCandidates, std::shared_ptr<HeldCandidates>>(
      m, "Candidates", "Each query's candidates in one part of an index.")
      .def("arrays", &arrays_of_candidates, "Return them as arrays; see from_arrays().")
      .def_static(
          "from_arrays", &candidates_from_arrays,
          "Make the candidates of a request from their arrays: doc_ends, seq, segment, row, "
          "scores, list_ends, listed, found, hidden, near, threads, lengths, "
          "length_shares, priors.",
          py::arg("arrays"), py::arg("request").none(false));

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
      .def("refused_queries", &refused_queries,
           "Return the queries whose texts ask for too much and were not searched, and why: 1 too "
           "many distinct terms, 2 too long a phrase, 3 searched, but with the most frequent "
           "terms alone of a word that stands for too many.",
           py::arg("arm"))
      .def("empty_queries", &empty_queries, "Return the queries whose text has no token.",
           py::arg("arm"))
      .def("host_queries", &host_queries,
           "Return the queries that the arm's device cannot search, so that the CPU does, and "
           "whether "
           "that is for what they exclude; none if the arm is on no device.",
           py::arg("arm"))
      .def("matches", &matches_query,
           "Return whether a document that this execution returned matches the text query.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def("excludes", &excludes_document,
           "Return whether a document would match the text query without what it excludes.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def("leaf_freqs", &leaf_freqs,
           "Return each leaf's term frequency in a document that this execution returned.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def("vector_pairs", &vector_pairs,
           "Return (its number, that of the document's vector, cosine) of each of the query's "
           "vectors, in a dense arm of many.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"))
      .def("sparse_pairs", &sparse_pairs,
           "Return (term, weight in the query, weight in the document) of each that they share, in "
           "an arm of sparse vectors.",
           py::arg("arm"), py::arg("query"), py::arg("segment"), py::arg("row"));

  m.def(
      "merge", &merge_candidates,
      "Join the candidates of the parts: rank, fuse, and cut offset and limit. Returns the arrays "
      "offsets, part, segment, row, rank, score, arm_scores, arm_ranks, scales, list_sizes; with "
      "evidence also fused_score, near_0_addend, near_0_segment, near_0_row and so on, "
      "neighbour_evidence, thread_evidence, length_evidence, prior_evidence.",
      py::arg("request"), py::arg("parts"));
}

}  // namespace hyrecall::bindings
