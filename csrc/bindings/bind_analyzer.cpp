// The analyzer: texts in, terms and positions out. Python callables are called with the GIL,
// everything else without.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "text/analyzer.hpp"
#include "text/unicode.hpp"
#include "text/utf8.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

std::pair<char const*, text::Preset> constexpr kPresets[] = {
    {"word", text::Preset::kWord},       {"word_marks", text::Preset::kWordMarks},
    {"unicode", text::Preset::kUnicode}, {"unicode61", text::Preset::kUnicode61},
    {"porter", text::Preset::kPorter},   {"turkish", text::Preset::kTurkish},
};

text::Preset take_preset(std::string const& name) {
  for (auto const& [known, preset] : kPresets)
    if (name == known) return preset;
  throw Error(ErrorCode::kOption, "preset", "expected a native preset, got '" + name + "'");
}

text::Role take_role(std::string const& role) {
  if (role == "document") return text::Role::kDocument;
  if (role == "query") return text::Role::kQuery;
  throw Error(ErrorCode::kOption, "role", "expected 'document' or 'query', got '" + role + "'");
}

// Borrows a str as UTF-8 (lone surrogates as three invalid bytes), or bytes.
std::vector<std::string_view> take_texts(py::tuple const& texts, std::vector<py::object>& owners) {
  std::vector<std::string_view> views;
  views.reserve(texts.size());
  for (py::handle const text : texts) {
    if (PyBytes_Check(text.ptr())) {
      views.emplace_back(PyBytes_AS_STRING(text.ptr()),
                         static_cast<std::size_t>(PyBytes_GET_SIZE(text.ptr())));
      continue;
    }
    if (!PyUnicode_Check(text.ptr()))
      throw Error(ErrorCode::kDtype, "texts",
                  std::string("expected str or bytes, got ") + Py_TYPE(text.ptr())->tp_name);
    Py_ssize_t size = 0;
    char const* bytes = PyUnicode_AsUTF8AndSize(text.ptr(), &size);
    if (bytes == nullptr) {
      PyErr_Clear();
      PyObject* const encoded = PyUnicode_AsEncodedString(text.ptr(), "utf-8", "surrogatepass");
      if (encoded == nullptr) throw py::error_already_set();
      owners.push_back(py::reinterpret_steal<py::object>(encoded));
      bytes = PyBytes_AS_STRING(encoded);
      size = PyBytes_GET_SIZE(encoded);
    }
    views.emplace_back(bytes, static_cast<std::size_t>(size));
  }
  return views;
}

py::str as_str(std::string_view utf8) {
  PyObject* const made =
      PyUnicode_DecodeUTF8(utf8.data(), static_cast<Py_ssize_t>(utf8.size()), "replace");
  if (made == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(made);
}

std::string take_term(py::handle term, char const* argument) {
  if (!PyUnicode_Check(term.ptr()))
    throw Error(ErrorCode::kDtype, argument,
                std::string("expected terms of type str, got ") + Py_TYPE(term.ptr())->tp_name);
  Py_ssize_t size = 0;
  char const* const bytes = PyUnicode_AsUTF8AndSize(term.ptr(), &size);
  if (bytes == nullptr) {
    PyErr_Clear();
    throw Error(ErrorCode::kOption, argument,
                "expected terms of valid Unicode, got a lone surrogate");
  }
  return std::string(bytes, static_cast<std::size_t>(size));
}

// Calls the function once; returns a list of terms for each input. The GIL must be held.
template <typename Strings>
std::vector<std::vector<std::string>> call(py::object const& function, char const* argument,
                                           Strings inputs) {
  py::list asked(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) asked[i] = as_str(inputs[i]);
  py::object const answer = function(asked);
  std::vector<std::vector<std::string>> lists;
  for (py::handle const list : answer) {
    if (!PyList_Check(list.ptr()) && !PyTuple_Check(list.ptr()))
      throw Error(ErrorCode::kDtype, argument,
                  std::string("expected a list of terms, got ") + Py_TYPE(list.ptr())->tp_name);
    std::vector<std::string>& terms = lists.emplace_back();
    for (py::handle const term : list) terms.push_back(take_term(term, argument));
  }
  return lists;
}

// The engine may release an analyzer on a thread without the GIL.
std::shared_ptr<py::object> hold(py::object function) {
  return {new py::object(std::move(function)),
          [](py::object* held) { call_python([held] { delete held; }); }};
}

std::shared_ptr<text::Analyzer> from_preset(std::string const& preset,
                                            std::vector<std::string> stopwords, py::object function,
                                            bool function_stems) {
  text::AnalyzerOptions options{.preset = take_preset(preset),
                                .stopwords = std::move(stopwords),
                                .token_function = {},
                                .function_stems = function_stems};
  if (!function.is_none())
    options.token_function = [held =
                                  hold(std::move(function))](std::span<std::string const> tokens) {
      return call_python([&] { return call(*held, "token_function", tokens); });
    };
  return text::make_analyzer(std::move(options));
}

// Calls the function once; returns the terms of each text with their places. The GIL must be held.
std::vector<std::vector<text::LocatedTerm>> call_locating(py::object const& function,
                                                          std::span<std::string_view const> texts) {
  py::list asked(texts.size());
  for (std::size_t i = 0; i < texts.size(); ++i) asked[i] = as_str(texts[i]);
  std::vector<std::vector<text::LocatedTerm>> lists;
  for (py::handle const list : function(asked)) {
    std::vector<std::size_t> const starts = text::code_point_starts(texts[lists.size()]);
    std::vector<text::LocatedTerm>& terms = lists.emplace_back();
    for (py::handle const one : list) {
      auto const [term, begin, end] =
          py::cast<std::tuple<std::string, std::size_t, std::size_t>>(one);
      require(begin <= end && end < starts.size(), "a place in its text");
      if (!term.empty()) terms.push_back({term, {starts[begin], starts[end]}});
    }
  }
  return lists;
}

std::shared_ptr<text::Analyzer> from_text_function(py::object function, py::object locate) {
  text::LocateFunction located;
  if (!locate.is_none())
    located = [held = hold(std::move(locate))](std::span<std::string_view const> texts) {
      return call_python([&] { return call_locating(*held, texts); });
    };
  return text::make_text_analyzer(
      [held = hold(std::move(function))](std::span<std::string_view const> texts) {
        return call_python([&] { return call(*held, "function", texts); });
      },
      std::move(located));
}

template <typename T>
py::array_t<T> array_of(std::vector<T> const& values) {
  return py::array_t<T>(static_cast<py::ssize_t>(values.size()), values.data());
}

py::tuple analyze(text::Analyzer const& analyzer, py::sequence const& texts,
                  std::string const& role_name) {
  text::Role const role = take_role(role_name);
  py::tuple const held(texts);
  std::vector<py::object> owners;
  std::vector<std::string_view> const views = take_texts(held, owners);
  text::TokenBatch batch;
  {
    WithoutGil const no_gil;
    batch = analyzer.analyze(views, role);
  }
  py::list terms(batch.terms.size());
  for (std::size_t i = 0; i < batch.terms.size(); ++i) terms[i] = as_str(batch.terms[i]);
  return py::make_tuple(terms, array_of(batch.offsets), array_of(batch.term_ids),
                        array_of(batch.positions), array_of(batch.lengths));
}

// Of one text: a tuple for each token.
py::object locate(text::Analyzer const& analyzer, py::str const& text,
                  std::string const& role_name) {
  text::Role const role = take_role(role_name);
  std::vector<py::object> owners;
  std::string_view const view = take_texts(py::make_tuple(text), owners)[0];
  std::unique_ptr<text::Reader> reader;
  {
    WithoutGil const no_gil;
    reader = analyzer.locating_reader(role);
    if (reader != nullptr) reader->read({&view, 1});
  }
  if (reader == nullptr) return py::none();
  text::TokenBatch const& batch = reader->batch();
  std::vector<std::size_t> const starts = text::code_point_starts(view);
  auto const place = [&](std::size_t byte) {
    return std::lower_bound(starts.begin(), starts.end(), byte) - starts.begin();
  };
  py::list out(batch.term_ids.size());
  for (std::size_t i = 0; i < batch.term_ids.size(); ++i)
    out[i] = py::make_tuple(as_str(batch.terms[batch.term_ids[i]]), batch.positions[i],
                            place(batch.spans[i].begin), place(batch.spans[i].end));
  return out;
}

std::string text_version(std::string const& preset) {
  return std::string(text::table_version()) + "+rules" +
         std::to_string(text::rules_version(take_preset(preset)));
}

}  // namespace

void bind_analyzer(py::module_& m) {
  m.def("text_version", &text_version, py::arg("preset"),
        "Return the version of the character tables and a preset's rules, a part of the hash of "
        "every analyzer.");
  py::class_<text::Analyzer, std::shared_ptr<text::Analyzer>>(
      m, "Analyzer", "Splits texts into terms with positions.")
      .def(py::init(&from_preset), py::arg("preset"), py::kw_only(),
           py::arg("stopwords") = std::vector<std::string>(),
           py::arg("token_function") = py::none(), py::arg("function_stems") = false,
           "Make an analyzer of a native preset; `token_function` maps a list of distinct tokens "
           "to a list of terms for each. `function_stems`: it is a stemmer.")
      .def_static("from_text_function", &from_text_function, py::arg("function"),
                  py::arg("locate") = py::none(),
                  "Make an analyzer from a function that maps texts to a list of terms for each; "
                  "`locate` gives (term, start, end) instead of a term.")
      .def("analyze", &analyze, py::arg("texts"), py::arg("role"),
           "Return terms, offsets, term_ids, positions, lengths of texts (str or bytes).")
      .def("locate", &locate, py::arg("text"), py::arg("role"),
           "Return (term, position, start, end) of each token, in code points of the text; None: "
           "the analyzer's function does not tell.");
}

}  // namespace hyrecall::bindings
