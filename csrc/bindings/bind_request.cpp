// Binds requests, which hold the options of a batch and its queries.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/held.hpp"
#include "bindings/native_run.hpp"
#include "bindings/scopes.hpp"
#include "bindings/take.hpp"
#include "core/fp_env.hpp"
#include "core/parallel.hpp"
#include "engine/lexical/fuzzy_terms.hpp"
#include "engine/lexical/marks.hpp"
#include "engine/request/request.hpp"
#include "engine/segment/segment.hpp"
#include "kernels/settings.hpp"
#include "text/utf8.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// Lone surrogates become invalid UTF-8, which the analyzer treats as separators.
std::string take_text(py::handle text) {
  Py_ssize_t size = 0;
  if (char const* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size))
    return {bytes, static_cast<std::size_t>(size)};
  PyErr_Clear();
  return py::cast<std::string>(text.attr("encode")("utf-8", "surrogatepass"));
}

TextQuery take_query(py::handle source) {
  if (py::isinstance<py::str>(source)) return TextQuery::of_text(take_text(source));
  if (py::isinstance<TextQuery>(source)) return py::cast<TextQuery const&>(source);
  throw Error(ErrorCode::kDtype, "text",
              std::string("expected a str or a TextQuery, got ") + Py_TYPE(source.ptr())->tp_name);
}

std::vector<TextQuery> take_queries(py::list const& sources) {
  std::vector<TextQuery> out;
  for (py::handle source : sources) out.push_back(take_query(source));
  return out;
}

TextQuery phrase_query(py::str const& text, std::uint32_t slop) {
  return TextQuery::phrase(take_text(text), slop);
}

TextQuery prefix_query(py::str const& text, std::uint32_t slop) {
  return TextQuery::prefix(take_text(text), slop);
}

TextQuery fuzzy_query(py::str const& text, std::uint32_t edits) {
  require(edits <= kMostEdits, "at most two edits");
  return TextQuery::fuzzy(take_text(text), edits);
}

TextQuery boosted_query(double factor, py::object const& query) {
  return TextQuery::boosted(factor, take_query(query));
}

TextQuery all_query(py::list const& queries) {
  return TextQuery::all(take_queries(queries));
}

TextQuery any_query(py::list const& queries) {
  return TextQuery::any(take_queries(queries));
}

TextQuery excluded_query(py::object const& query) {
  return TextQuery::excluded(take_query(query));
}

using OptionalFloor = std::optional<std::pair<double, bool>>;

template <typename T>
Floor<T> take_floor(OptionalFloor const& floor) {
  if (!floor) return {};
  return {static_cast<T>(floor->first), true, floor->second};
}

Fusion::Kind take_fusion(std::string const& name) {
  if (name == "rrf") return Fusion::Kind::kRrf;
  if (name == "weighted_sum") return Fusion::Kind::kWeightedSum;
  if (name == "max") return Fusion::Kind::kMax;
  return Fusion::Kind::kNone;
}

Fusion::Scale take_scale(std::string const& name) {
  if (name == "minmax") return Fusion::Scale::kMinmax;
  if (name == "distribution") return Fusion::Scale::kDistribution;
  if (name == "best") return Fusion::Scale::kBest;
  if (name == "clip") return Fusion::Scale::kClip;
  if (name == "unit") return Fusion::Scale::kUnit;
  return Fusion::Scale::kNone;
}

std::shared_ptr<BatchRequest> make_request(
    Scopes const& scopes, std::vector<std::shared_ptr<FilterProgram>> const& filters,
    std::optional<Array<std::uint32_t>> const& filter_of, std::size_t depth, std::size_t limit,
    std::size_t offset, int threads, std::optional<std::uint64_t> host_postings) {
  auto request = std::make_shared<BatchRequest>();
  request->scopes = scopes.distinct();
  request->scope_of = scopes.scope_of();
  request->n_queries = request->scope_of.size();
  std::vector<std::uint32_t> none(filter_of ? 0 : request->n_queries, kNone32);
  std::span<std::uint32_t const> const numbers = filter_of ? span_of(*filter_of) : none;
  auto taken = take_all(filters);
  request->set_filters({taken.begin(), taken.end()}, numbers);
  request->depth = depth;
  request->limit = limit;
  request->offset = offset;
  request->threads = std::clamp(threads, 1, kMostThreads);
  request->settings = read_settings();
  if (host_postings)
    request->host_postings = request->settings.auto_postings.value_or(*host_postings);
  return request;
}

void divide_scopes(BatchRequest& request, std::size_t part, std::vector<py::bytes> const& values) {
  std::vector<std::string> const taken(values.begin(), values.end());
  request.divide(part, taken);
}

void add_lexical_arm(BatchRequest& request, std::size_t column, std::string name,
                     Bm25Numbers const& bm25, std::shared_ptr<text::Analyzer> const& analyzer,
                     py::sequence const& queries, py::object const& lower,
                     OptionalFloor const& floor, std::optional<std::uint32_t> const& table) {
  LexicalRequest arm;
  arm.table = table.value_or(kAllTables);
  FpEnvGuard const fp;  // the floor is rounded to float32 here
  arm.column = column;
  arm.name = std::move(name);
  arm.bm25 = take_bm25(bm25);
  arm.analyzer = analyzer;
  arm.queries.reserve(request.n_queries);
  // Owned: a sequence such as a NumPy array makes each item on access.
  for (py::object taken : queries) {
    if (!taken.is_none() && !PyUnicode_CheckExact(taken.ptr()))
      taken = lower(taken, "text[" + std::to_string(arm.queries.size()) + "]");
    if (taken.is_none()) {
      arm.queries.emplace_back();
    } else {
      arm.queries.emplace_back(take_query(taken));
    }
  }
  arm.floor = take_floor<float>(floor);
  request.add(std::move(arm));
}

// reasons: [n_lexical, n_queries]
void refuse_texts(BatchRequest& request, Array<std::uint8_t> const& reasons) {
  std::span<std::uint8_t const> const given = span_of(reasons);
  require(given.size() == request.lexical.size() * request.n_queries, "a reason for each text");
  for (std::size_t arm = 0; arm < request.lexical.size(); ++arm) {
    std::vector<Refusal>& own = request.lexical[arm].refused;
    own.clear();
    for (std::uint8_t const why : given.subspan(arm * request.n_queries, request.n_queries)) {
      require(why <= static_cast<std::uint8_t>(Refusal::kCut), "a known reason");
      own.push_back(static_cast<Refusal>(why));
    }
  }
}

void choose_terms(BatchRequest& request, py::list const& chosen) {
  for (LexicalRequest& arm : request.lexical) arm.chosen.clear();
  for (py::handle const one : chosen) {
    auto [arm, query, leaf, terms] =
        py::cast<std::tuple<std::size_t, std::size_t, std::size_t, std::vector<std::string>>>(one);
    require(arm < request.lexical.size() && query < request.n_queries, "a text of the request");
    request.lexical[arm].chosen.push_back({query, leaf, std::move(terms)});
  }
}

// A vector arm without its queries.
DenseRequest dense_arm(std::size_t column, std::string name, OptionalFloor const& floor,
                       std::optional<std::uint32_t> const& table, bool completes_only) {
  FpEnvGuard const fp;  // the floor is rounded to float32 here
  DenseRequest arm;
  arm.column = column;
  arm.name = std::move(name);
  arm.floor = take_floor<float>(floor);
  arm.table = table.value_or(kAllTables);
  arm.completes_only = completes_only;
  return arm;
}

void add_dense_arm(BatchRequest& request, std::size_t column, std::string name,
                   Array<float> const& vectors, Array<std::uint8_t> const& valid,
                   OptionalFloor const& floor, std::optional<std::uint32_t> const& table,
                   std::optional<std::vector<std::size_t>> bundles, bool completes_only) {
  require(vectors.ndim() == 2, "vectors as rows");
  DenseRequest arm = dense_arm(column, std::move(name), floor, table, completes_only);
  auto const dim = static_cast<std::uint32_t>(vectors.shape(1));
  float const* const values = vectors.data();
  std::span<std::uint8_t const> const present = span_of(valid);
  auto const n_vectors = static_cast<std::size_t>(vectors.shape(0));
  NativeRun const run;
  arm.queries = prepare_queries(values, n_vectors, dim, present, "vectors", request.threads);
  if (bundles) arm.bundles = std::make_shared<std::vector<std::size_t> const>(*std::move(bundles));
  request.add(std::move(arm));
}

void add_sparse_arm(BatchRequest& request, std::size_t column, std::string name, py::handle terms,
                    Array<std::int64_t> const& begins, Array<std::uint32_t> const& numbers,
                    Array<float> const& weights, std::string const& argument,
                    OptionalFloor const& floor, std::optional<std::uint32_t> const& table,
                    bool completes_only) {
  DenseRequest arm = dense_arm(column, std::move(name), floor, table, completes_only);
  Strings taken = take_strings(take_arrow(terms, "terms"), "terms").values;
  NativeRun const run;
  arm.sparse = std::make_shared<SparseQueries const>(std::move(taken), span_of(begins),
                                                     span_of(numbers), span_of(weights), argument);
  request.add(std::move(arm));
}

void add_guest_arm(BatchRequest& request, std::size_t column, std::string name, HeldGuest& guest,
                   std::string argument, OptionalFloor const& floor) {
  require(guest.guest.tensor.n_rows == request.n_queries, "one vector a query");
  FpEnvGuard const fp;  // the floor is rounded to float32 here
  require(request.tables.empty(), "no tables");
  auto queries = std::make_shared<GuestQueries>(guest.take(), std::move(argument));
  request.add(
      DenseRequest{column, std::move(name), {}, take_floor<float>(floor), std::move(queries)});
}

void add_listed_arm(BatchRequest& request, std::string name, Array<std::int64_t> const& offsets,
                    Array<std::uint32_t> const& segment, Array<std::uint32_t> const& row,
                    Array<float> const& score, OptionalFloor const& floor) {
  require(score.size() == row.size(), "one score a document");
  ListedRequest arm;
  FpEnvGuard const fp;  // the floor is rounded to float32 here
  arm.name = std::move(name);
  arm.queries = listed_by_query(request.n_queries, span_of(offsets), span_of(segment), span_of(row),
                                span_of(score));
  arm.floor = take_floor<float>(floor);
  request.add(std::move(arm));
}

void set_fusion(BatchRequest& request, std::string const& kind, std::vector<double> weights,
                double rank_constant, std::vector<std::string> const& scales, bool complete,
                std::optional<double> balance, OptionalFloor const& min_fused, bool normalize,
                bool ranks_by_place) {
  std::vector<Fusion::Scale> taken;
  for (std::string const& scale : scales) taken.push_back(take_scale(scale));
  request.set_fusion({take_fusion(kind), std::move(weights), rank_constant, std::move(taken),
                      complete, balance, ranks_by_place},
                     take_floor<double>(min_fused), normalize);
}

// The number of an attribute column, its values as codes or texts, and what each adds.
using GivenPrior =
    std::tuple<std::size_t, std::variant<std::vector<std::int64_t>, std::vector<std::string>>,
               std::vector<double>>;

void set_evidence(BatchRequest& request, std::vector<double> neighbours, double thread,
                  double length, std::optional<GivenPrior> given) {
  std::optional<Prior> prior;
  if (given) {
    auto& [attribute, values, addends] = *given;
    prior = Prior{attribute, {}, {}, std::move(addends)};
    if (auto* const texts = std::get_if<std::vector<std::string>>(&values)) {
      prior->texts = std::move(*texts);
    } else {
      prior->codes = std::move(std::get<std::vector<std::int64_t>>(values));
    }
  }
  request.set_evidence({std::move(neighbours), thread, length, std::move(prior)});
}

std::shared_ptr<BatchRequest> slice_of(BatchRequest const& request, std::size_t begin,
                                       std::size_t end, std::optional<std::size_t> limit) {
  require(begin <= end && end <= request.n_queries, "a range of its queries");
  auto out = std::make_shared<BatchRequest>(request.slice(begin, end));
  if (limit) {
    out->limit = *limit;
    out->offset = 0;
  }
  return out;
}

// Whether each segment has a cell of some scope of the request.
std::vector<bool> reached_segments(BatchRequest const& request, Snapshot const& snapshot) {
  NativeRun const run;
  std::vector<bool> out;
  for (auto const& view : snapshot.segments) {
    CellDirectory const& cells = view->segment().p.cells;
    out.push_back(std::any_of(request.scopes.begin(), request.scopes.end(), [&](auto const& scope) {
      return std::any_of(scope->cells.begin(), scope->cells.end(),
                         [&](std::string const& cell) { return cells.find(cell) != kNone32; });
    }));
  }
  return out;
}

std::optional<TextQuery> text_query(BatchRequest const& request, std::size_t arm,
                                    std::size_t query) {
  std::optional<TextQuery> asked = request.lexical.at(arm).queries.at(query);
  if (asked) asked = as_asked(std::move(*asked));
  return asked;
}

// For each text a tuple for each of its words.
py::object marks_of(text::Analyzer const& analyzer, py::object const& query,
                    std::vector<py::str> const& texts) {
  std::vector<std::string> held;
  for (py::str const& text : texts) held.push_back(take_text(text));
  std::optional<TextQuery> const asked[] = {take_query(query)};
  std::vector<std::vector<Mark>> found;
  std::unique_ptr<text::Reader> reader;
  {
    NativeRun const run;
    reader = analyzer.locating_reader(text::Role::kDocument);
    if (reader != nullptr) {
      std::vector<Refusal> refused;
      std::optional<LexicalQuery> const read = analyze_queries(asked, analyzer, 0, 1, refused)[0];
      for (std::string_view const text : held) {
        reader->read({&text, 1});
        found.push_back(read ? find_marks(*read, *reader) : std::vector<Mark>{});
      }
    }
  }
  if (reader == nullptr) return py::none();
  py::list out(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) {
    std::vector<std::size_t> const starts = text::code_point_starts(held[i]);
    auto const place = [&](std::size_t byte) {
      return std::lower_bound(starts.begin(), starts.end(), byte) - starts.begin();
    };
    py::list marks(found[i].size());
    for (std::size_t j = 0; j < found[i].size(); ++j) {
      auto const& [span, leaf] = found[i][j];
      marks[j] = py::make_tuple(place(span.begin), place(span.end), leaf);
    }
    out[i] = std::move(marks);
  }
  return out;
}

py::array_t<float> query_vector(BatchRequest const& request, std::size_t arm, std::size_t query) {
  DenseQuery const held = request.dense.at(arm).query(query);
  return py::array_t<float>(static_cast<py::ssize_t>(held.padded.size()), held.padded.data());
}

void deepen(BatchRequest& request, std::size_t depth) {
  request.depth = std::max(request.depth, depth);
}

void bind_queries(py::module_& parent) {
  py::module_ m = parent.def_submodule("queries", "Text queries, as the engine reads them.");
  py::class_<TextQuery>(m, "TextQuery", "A typed text query. A str among queries is plain text.")
      .def_static("phrase", &phrase_query, "Match the tokens of a text at consecutive positions.",
                  py::arg("text"), py::arg("slop"))
      .def_static("prefix", &prefix_query,
                  "Match the words of a text like a phrase, where the last stands for every term "
                  "that begins so.",
                  py::arg("text"), py::arg("slop"))
      .def_static("fuzzy", &fuzzy_query,
                  "Match the words of a text in a row, where the last stands for every term within "
                  "so many edits, at most two.",
                  py::arg("text"), py::arg("edits"))
      .def_static("boosted", &boosted_query, "Multiply a query's weights by a factor.",
                  py::arg("factor"), py::arg("query"))
      .def_static("all", &all_query, "Match documents that match every one of the queries.",
                  py::arg("queries"))
      .def_static("any", &any_query, "Match documents that match at least one of the queries.",
                  py::arg("queries"))
      .def_static("excluded", &excluded_query,
                  "Match, in a group, no document that matches the query.", py::arg("query"))
      .def_readonly("text", &TextQuery::text, "Its own text as given; of a group, empty.");
  m.def("find_marks", &marks_of,
        "Return (start, end, leaf) of each word of each text that the query asks for, in code "
        "points, in text order; None: the analyzer's function does not tell places.",
        py::arg("analyzer"), py::arg("query"), py::arg("texts"));
}

}  // namespace

void bind_request(py::module_& m) {
  bind_queries(m);
  py::class_<BatchRequest, std::shared_ptr<BatchRequest>>(
      m, "BatchRequest", "One batch of queries with the options of its call.")
      .def(py::init(&make_request),
           "Make a request without arms. filter_of: the number of each query's filter; None: no "
           "query has one. host_postings: texts alone with at most so many postings are searched "
           "on the CPU, if HYRECALL_AUTO_POSTINGS sets no other limit; None: none are.",
           py::kw_only(), py::arg("scopes"), py::arg("filters"), py::arg("filter_of"),
           py::arg("depth"), py::arg("limit"), py::arg("offset"), py::arg("threads"),
           py::arg("host_postings") = py::none())
      .def("divide", &divide_scopes,
           "Divide every scope into tables by a part of the cell, for arms that are added later: "
           "one table for each encoded value, in this order, then one for all others.",
           py::arg("part"), py::arg("values"))
      .def(
          "add_lexical", &add_lexical_arm,
          "Add a lexical arm. lower(query, argument) converts a query that is neither str nor None "
          "to one of these or a TextQuery.",
          py::arg("column"), py::arg("name"), py::arg("bm25"), py::arg("analyzer").none(false),
          py::arg("queries"), py::arg("lower"), py::arg("floor"), py::arg("table") = py::none())
      .def(
          "add_dense", &add_dense_arm,
          "Add a dense arm: vectors (n_queries, dim), and a byte for each that says whether it is "
          "there; no bytes: all are. bundles: query q has the vectors from bundles[q] to "
          "bundles[q + 1], of a column whose rows have many too. completes_only: it lists nothing, "
          "and scores what other arms list.",
          py::arg("column"), py::arg("name"), py::arg("vectors"), py::arg("valid"),
          py::arg("floor"), py::arg("table") = py::none(), py::arg("bundles") = py::none(),
          py::arg("completes_only") = false)
      .def("add_sparse", &add_sparse_arm,
           "Add an arm of sparse vectors: query q has the terms numbers[i] with weights[i], for i "
           "from begins[q] to begins[q + 1]. completes_only: as of add_dense.",
           py::arg("column"), py::arg("name"), py::arg("terms"), py::arg("begins"),
           py::arg("numbers"), py::arg("weights"), py::arg("argument"), py::arg("floor"),
           py::arg("table") = py::none(), py::arg("completes_only") = false)
      .def("add_guest", &add_guest_arm,
           "Add a dense arm whose queries are on its device; takes ownership of the guest.",
           py::arg("column"), py::arg("name"), py::arg("guest"), py::arg("argument"),
           py::arg("floor"))
      .def("add_listed", &add_listed_arm,
           "Add an arm whose documents and scores are given: query q has those from offsets[q] to "
           "offsets[q + 1].",
           py::arg("name"), py::arg("offsets"), py::arg("segment"), py::arg("row"),
           py::arg("score"), py::arg("floor"))
      .def("refuse_texts", &refuse_texts,
           "Leave out texts that another part of the index could not search, and mark those that "
           "are "
           "cut: the number of the reason for each query of each lexical arm, 0 for none.",
           py::arg("reasons"))
      .def("choose_terms", &choose_terms,
           "Set the terms that words find which stand for too many over all parts of the index: "
           "(lexical arm, query, leaf, terms) of each.",
           py::arg("chosen"))
      .def("set_fusion", &set_fusion, "Set how the arms' lists are joined, after the last arm.",
           py::kw_only(), py::arg("kind"), py::arg("weights"), py::arg("rank_constant"),
           py::arg("scales"), py::arg("complete"), py::arg("balance"), py::arg("min_fused"),
           py::arg("normalize"), py::arg("ranks_by_place") = false)
      .def("set_evidence", &set_evidence,
           "Let the rows around a hit add to its score, after set_fusion(): weights of the rows 1, "
           "2, ... places away in its thread, of BM25 of the thread, and of the row's length. "
           "prior: "
           "an attribute column, values there (codes or texts), and what each adds.",
           py::kw_only(), py::arg("neighbours"), py::arg("thread"), py::arg("length"),
           py::arg("prior") = py::none())
      .def("slice", &slice_of,
           "Return a request with only the queries [begin, end). With a limit it asks for so many "
           "hits from the first.",
           py::arg("begin"), py::arg("end"), py::arg("limit") = py::none())
      .def("text_query", &text_query,
           "Return a lexical arm's query as it was asked; None: it has none.", py::arg("arm"),
           py::arg("query"))
      .def("query_vector", &query_vector,
           "Return a copy of the arm's query vector, padded with zeros; empty if missing.",
           py::arg("arm"), py::arg("query"))
      .def("reached", &reached_segments,
           "Return whether each segment has a cell of some scope of the request.",
           py::arg("snapshot"))
      .def("release_guests", &BatchRequest::release_guests,
           "Release the tensors whose queries have been read.")
      .def("deepen", &deepen, "Let each arm hand on so many candidates, or more.", py::arg("depth"))
      .def_readonly("n_queries", &BatchRequest::n_queries, "The number of queries.")
      .def_property_readonly("n_arms", &BatchRequest::n_arms, "The number of arms so far.");
}

}  // namespace hyrecall::bindings
