// Binds recalls whose options were read before: what is asked goes in, and hits come out.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/reply.hpp"
#include "bindings/scopes.hpp"
#include "core/error.hpp"
#include "engine/evidence/features.hpp"
#include "engine/recall.hpp"
#include "engine/request/dense_query.hpp"
#include "engine/request/request.hpp"
#include "kernels/settings.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

constexpr std::size_t kMostQueries = 1024;  // DEVICE_QUERIES of recall/batch.py: more run in pieces

// Seconds of the clock that time.perf_counter() reads.
double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Texts that a recipe treats apart: a blank one finds nothing, and one that is an identifier or
// stands in quotes puts the rows first that hold it whole.
struct TextRules {
  bool blank = false, exact = false;

  // Errs on the side of true.
  bool apply_to(py::handle text) const {
    if (!blank && !exact) return false;
    int const kind = PyUnicode_KIND(text.ptr());
    void const* const data = PyUnicode_DATA(text.ptr());
    auto const at = [&](Py_ssize_t i) { return PyUnicode_READ(kind, data, i); };
    Py_ssize_t begin = 0, end = PyUnicode_GET_LENGTH(text.ptr());
    while (begin < end && Py_UNICODE_ISSPACE(at(begin))) ++begin;
    while (begin < end && Py_UNICODE_ISSPACE(at(end - 1))) --end;
    if (begin == end) return true;
    if (!exact) return false;
    if (at(begin) == '"') return true;
    bool has_digit = false;
    for (Py_ssize_t i = begin; i < end; ++i) {
      if (Py_UNICODE_ISSPACE(at(i))) return false;
      has_digit = has_digit || Py_UNICODE_ISDECIMAL(at(i));
    }
    return has_digit;
  }
};

// What a call came to, without the execution, which takes much more memory than its hits.
struct Answer {
  std::shared_ptr<BatchRequest> request;
  std::shared_ptr<GivenReply const> reply;
  ThreadMembers members;                                   // of hits that are grouped
  LinearScores linear;                                     // of hits that were scored so
  double planned = 0, counted = 0, fused = 0, fusion = 0;  // seconds of the clock; a duration
  double grouped = 0;                                      // another one
  // By lexical arm, as Execution has them.
  std::vector<std::vector<std::size_t>> empty;
  std::vector<std::vector<std::pair<std::size_t, bool>>> host;
  std::vector<std::vector<std::pair<std::size_t, int>>> refused;

  void take_texts(Execution const& execution) {
    for (std::size_t arm = 0; arm < request->lexical.size(); ++arm) {
      empty.push_back(execution.empty_queries(arm));
      host.push_back(execution.host_queries(arm));
      auto& own = refused.emplace_back();
      for (auto const& [query, why] : execution.refused_queries(arm))
        own.emplace_back(query, static_cast<int>(why));
    }
  }
};

py::tuple give_members(Answer const& answer) {
  ThreadMembers const& held = answer.members;
  auto const n = static_cast<py::ssize_t>(held.row.size());
  return py::make_tuple(held.offsets, py::array_t<std::uint32_t>(n, held.segment.data()),
                        py::array_t<Row>(n, held.row.data()), held.score);
}

py::tuple give_linear(Answer const& answer) {
  LinearScores const& held = answer.linear;
  auto const copy = [](auto const& values) {
    return py::array(static_cast<py::ssize_t>(values.size()), values.data());
  };
  return py::make_tuple(held.n_ranked, copy(held.fused), copy(held.seqs), copy(held.addends));
}

// The options of recalls, read once, without anything that one of them asked.
class FrozenRequest {
 public:
  FrozenRequest(BatchRequest const& like, std::optional<std::uint64_t> host_postings,
                std::vector<std::string> kinds, py::object scope_type,
                std::vector<std::uint32_t> dims, bool blank, bool exact,
                std::optional<std::array<std::size_t, 3>> group, std::optional<LinearRules> linear)
      : options_(like.slice(0, 0)),
        host_postings_(host_postings),
        kinds_(std::move(kinds)),
        scope_type_(std::move(scope_type)),
        dims_(std::move(dims)),
        rules_{blank, exact},
        linear_(std::move(linear)) {
    if (group) group_ = GroupParams{(*group)[0], (*group)[1], (*group)[2]};
    require(options_.listed.empty() && options_.tables.empty(), "arms of the index alone");
    require(options_.dense.size() == dims_.size() && dims_.size() <= 1, "one vector arm at most");
    for (DenseRequest& arm : options_.dense) arm = {arm.column, arm.name, {}, arm.floor};
    options_.first_query = 0;
  }

  // None: what is asked is not of the usual types, or wrong.
  std::unique_ptr<Answer> ask(std::shared_ptr<Snapshot> const& snapshot, py::handle text,
                              py::handle vectors, py::handle scope, py::handle filter, bool one,
                              std::int64_t now) const {
    auto request = std::make_shared<BatchRequest>(options_);
    try {
      if (!take_queries(*request, text, vectors, one)) return nullptr;
      if (!take_scopes(*request, scope, one)) return nullptr;
      if (!take_filters(*request, filter, one)) return nullptr;
    } catch (Error const&) {
      return nullptr;
    } catch (py::error_already_set& fault) {
      if (!fault.matches(PyExc_Exception)) throw;  // Ctrl-C
      return nullptr;
    } catch (py::cast_error const&) {
      return nullptr;
    }
    request->settings = read_settings();
    if (host_postings_)
      request->host_postings = request->settings.auto_postings.value_or(*host_postings_);
    request->is_read = true;
    auto out = std::make_unique<Answer>();
    NativeRun const run;
    out->planned = seconds_now();
    Execution const execution(*snapshot, *request);
    out->counted = seconds_now();
    TimedReply made = execution.hits(execution.statistics());
    out->fused = seconds_now();
    out->fusion = made.seconds;
    if (group_) {
      if (linear_)
        out->linear =
            score_by_features(*snapshot, *linear_, *group_, now, request->threads, made.arrays);
      else
        out->members = group_by_thread(*snapshot, *group_, made.arrays);
      out->grouped = seconds_now() - out->fused;
    }
    out->reply = std::make_shared<GivenReply>(std::move(made.arrays), request->evidence);
    out->request = std::move(request);
    out->take_texts(execution);
    return out;
  }

 private:
  bool take_queries(BatchRequest& request, py::handle text, py::handle vectors, bool one) const {
    std::vector<std::optional<TextQuery>> texts;
    if (!request.lexical.empty()) {
      if (one) {
        if (!take_text(text, texts)) return false;
      } else {
        if (!PyList_CheckExact(text.ptr())) return false;
        for (py::handle each : py::reinterpret_borrow<py::list>(text)) {
          if (!take_text(each, texts)) return false;
        }
      }
      request.n_queries = texts.size();
    }
    if (!request.dense.empty()) {
      if (!take_vectors(request, vectors, one)) return false;
    }
    if (request.n_queries == 0 || request.n_queries > kMostQueries) return false;
    for (LexicalRequest& arm : request.lexical) arm.queries = texts;
    return true;
  }

  bool take_text(py::handle text, std::vector<std::optional<TextQuery>>& out) const {
    if (!PyUnicode_CheckExact(text.ptr()) || rules_.apply_to(text)) return false;
    Py_ssize_t size = 0;
    char const* const bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes == nullptr) {
      PyErr_Clear();  // a lone surrogate
      return false;
    }
    out.emplace_back(TextQuery::of_text({bytes, static_cast<std::size_t>(size)}));
    return true;
  }

  bool take_vectors(BatchRequest& request, py::handle vectors, bool one) const {
    using Rows = py::array_t<float, py::array::c_style>;
    auto const& numpy = py::detail::npy_api::get();
    if (Py_TYPE(vectors.ptr()) != numpy.PyArray_Type_ || !py::isinstance<Rows>(vectors))
      return false;
    auto const given = py::reinterpret_borrow<Rows>(vectors);
    if ((given.flags() & numpy.NPY_ARRAY_ALIGNED_) == 0) return false;
    if (given.ndim() != (one ? 1 : 2)) return false;
    std::size_t const n = one ? 1 : static_cast<std::size_t>(given.shape(0));
    if (given.shape(given.ndim() - 1) != static_cast<py::ssize_t>(dims_[0])) return false;
    if (!request.lexical.empty() && n != request.n_queries) return false;
    if (n == 0 || n > kMostQueries) return false;
    request.n_queries = n;
    float const* const values = given.data();
    NativeRun const run;
    request.dense[0].queries = prepare_queries(values, n, dims_[0], {}, "vectors", request.threads);
    return true;
  }

  bool take_scopes(BatchRequest& request, py::handle scope, bool one) const {
    Scopes scopes(kinds_, scope_type_, py::none());
    if (kinds_.empty()) {
      if (!scope.is_none()) return false;
      scopes.add(py::tuple(), request.n_queries);
    } else if (PyList_CheckExact(scope.ptr())) {
      auto const each = py::reinterpret_borrow<py::list>(scope);
      if (one || each.size() != request.n_queries) return false;
      scopes.add_each(each);
    } else {
      if (scope.is_none()) return false;
      scopes.add(scope, request.n_queries);
    }
    request.scopes = scopes.distinct();
    request.scope_of = scopes.scope_of();
    return request.scope_of.size() == request.n_queries;
  }

  static bool take_filters(BatchRequest& request, py::handle filter, bool one) {
    std::vector<std::shared_ptr<FilterProgram const>> distinct;
    std::vector<std::uint32_t> numbers;
    auto const take = [&](py::handle each) {
      if (each.is_none()) return kNone32;
      auto program = py::cast<std::shared_ptr<FilterProgram>>(each);
      if (distinct.empty() || distinct.back() != program) distinct.push_back(std::move(program));
      return static_cast<std::uint32_t>(distinct.size() - 1);
    };
    if (PyList_CheckExact(filter.ptr())) {
      auto const each = py::reinterpret_borrow<py::list>(filter);
      if (one || each.size() != request.n_queries) return false;
      for (py::handle given : each) numbers.push_back(take(given));
    } else {
      numbers.assign(request.n_queries, take(filter));
    }
    request.set_filters(std::move(distinct), numbers);
    return true;
  }

  BatchRequest options_;
  std::optional<std::uint64_t> host_postings_;
  std::vector<std::string> kinds_;
  py::object scope_type_;
  std::vector<std::uint32_t> dims_;
  TextRules rules_;
  std::optional<GroupParams> group_;
  std::optional<LinearRules> linear_;
};

}  // namespace

void bind_frozen(py::module_& m) {
  py::class_<Answer>(m, "Answer", "What a recall by a FrozenRequest came to.")
      .def_property_readonly(
          "request", [](Answer const& one) { return one.request; }, "Its request.")
      .def_property_readonly(
          "n_queries", [](Answer const& one) { return one.request->n_queries; },
          "The number of its queries.")
      .def_property_readonly(
          "n_hits", [](Answer const& one) { return one.reply->arrays.rank.size(); },
          "The number of hits of all queries.")
      .def_property_readonly(
          "arrays", [](Answer const& one) { return give_reply(one.reply, one.request->evidence); },
          "The arrays that merge() returns.")
      .def(
          "empty_queries", [](Answer const& one, std::size_t arm) { return one.empty.at(arm); },
          "As those of an Execution.", py::arg("arm"))
      .def(
          "refused_queries", [](Answer const& one, std::size_t arm) { return one.refused.at(arm); },
          "As those of an Execution.", py::arg("arm"))
      .def(
          "host_queries", [](Answer const& one, std::size_t arm) { return one.host.at(arm); },
          "As those of an Execution.", py::arg("arm"))
      .def_property_readonly(
          "times",
          [](Answer const& one) {
            return py::make_tuple(one.planned, one.counted, one.fused, one.fusion, one.grouped);
          },
          "When the options and queries were read, statistics counted and hits found, in seconds "
          "of time.perf_counter(); and how many seconds fusion and grouping took.")
      .def_property_readonly(
          "members", &give_members,
          "The best rows of the threads of hits that are grouped: offsets, segments, rows, "
          "scores.")
      .def_property_readonly(
          "linear", &give_linear,
          "Of hits scored by features: entries ranked, scores before, insertion numbers, addends.");
  py::class_<FrozenRequest>(m, "FrozenRequest", "The options of a recall, without its queries.")
      .def(py::init<BatchRequest const&, std::optional<std::uint64_t>, std::vector<std::string>,
                    py::object, std::vector<std::uint32_t>, bool, bool,
                    std::optional<std::array<std::size_t, 3>>, std::optional<LinearRules>>(),
           "Keep the options of a request with arms of the index alone. kinds, scope_type: as in "
           "Scopes; dims: of its vector arm; blank, exact: whether blank texts, and texts that "
           "are an identifier or quoted, are for others to answer; group: offset, limit and the "
           "rows shown of a thread, where each thread has one hit; linear: what chooses the rows "
           "of that page instead.",
           py::kw_only(), py::arg("like"), py::arg("host_postings"), py::arg("kinds"),
           py::arg("scope_type"), py::arg("dims"), py::arg("blank"), py::arg("exact"),
           py::arg("group") = py::none(), py::arg("linear") = py::none())
      .def(
          "ask", &FrozenRequest::ask,
          "Search for the given queries: a str, a float32 array and a scope, or with one=False "
          "lists of str, of scopes and of filters, or a scope or filter for all, and an array of "
          "rows; now: microseconds since 1970, where features read ages. Returns None for anything "
          "else, also for what is wrong.",
          py::arg("snapshot").none(false), py::arg("text"), py::arg("vectors"), py::arg("scope"),
          py::arg("filter"), py::arg("one"), py::arg("now") = 0);
}

}  // namespace hyrecall::bindings
