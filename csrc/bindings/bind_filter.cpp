// Binds attribute columns, made from Arrow buffers, and filter programs. The engine evaluates
// filters; the two evaluations here work on single columns, for tests.
#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/native_run.hpp"
#include "bindings/take.hpp"
#include "core/error.hpp"
#include "core/fp_env.hpp"
#include "engine/scope/filter.hpp"
#include "engine/segment/attributes.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

using Columns = std::vector<std::shared_ptr<AttributeColumn>>;
using Offsets = py::array_t<std::int64_t, py::array::c_style>;
using Bytes = py::array_t<std::uint8_t, py::array::c_style>;

template <typename T>
std::span<T const> view_of(py::array const& array) {
  return {static_cast<T const*>(array.data()), static_cast<std::size_t>(array.size())};
}

ValidityBits take_valid(std::optional<Bytes> const& bits, std::size_t first, std::size_t n) {
  if (!bits) return {};
  std::size_t const n_bits = static_cast<std::size_t>(bits->size()) * 8;
  if (n > n_bits || first > n_bits - n) {
    throw Error(ErrorCode::kShape, "valid",
                "expected a bit for each of " + std::to_string(n) + " values, got fewer");
  }
  return {bits->data(), first};
}

// Views the array as the first T that has its dtype.
template <typename... T>
std::optional<ArrowValues> take_first_of(py::array const& values) {
  std::optional<ArrowValues> taken;
  int const number = values.dtype().num();
  ((number == py::dtype::num_of<T>() ? void(taken = view_of<T>(values)) : void()), ...);
  return taken;
}

ArrowValues take_values(py::array const& values, std::optional<Bytes> const& text) {
  if (values.ndim() != 1 || (values.flags() & py::array::c_style) == 0) {
    throw Error(ErrorCode::kShape, "values", "expected a contiguous 1-d array, got another");
  }
  std::optional<ArrowValues> taken =
      take_first_of<std::int8_t, std::int16_t, std::int32_t, std::int64_t, std::uint8_t,
                    std::uint16_t, std::uint32_t, std::uint64_t, float, double>(values);
  if (!taken || (text && !std::holds_alternative<std::span<std::int64_t const>>(*taken))) {
    throw Error(ErrorCode::kDtype, "values",
                std::string("expected ") + (text ? "int64 offsets" : "an integer or float dtype") +
                    ", got " + py::str(values.dtype()).cast<std::string>());
  }
  if (!text) return *taken;
  auto const offsets = std::get<std::span<std::int64_t const>>(*taken);
  check_offsets(offsets, static_cast<std::int64_t>(text->size()), "offsets");
  // Buffers without an owner: the arrays live until the call returns.
  return Strings{{offsets.data(), offsets.size(), nullptr},
                 {text->data(), static_cast<std::size_t>(text->size()), nullptr}};
}

std::shared_ptr<AttributeColumn> build_column(
    py::array const& values, std::optional<Bytes> const& text, std::optional<Bytes> const& valid,
    std::size_t first_valid, std::optional<Offsets> const& offsets,
    std::optional<Bytes> const& list_valid, std::size_t first_list_valid) {
  ArrowValues const taken = take_values(values, text);
  std::size_t const n_values = std::visit([](auto const& typed) { return typed.size(); }, taken);
  ValidityBits const bits = take_valid(valid, first_valid, n_values);
  if (!offsets) {
    auto owner = keep(values);
    NativeRun const run;
    return std::make_shared<AttributeColumn>(build_scalar_column(taken, bits, std::move(owner)));
  }
  std::span<std::int64_t const> const lists = view_of<std::int64_t>(*offsets);
  check_offsets(lists, static_cast<std::int64_t>(n_values), "offsets");
  ValidityBits const list_bits = take_valid(list_valid, first_list_valid, lists.size() - 1);
  NativeRun const run;
  return std::make_shared<AttributeColumn>(build_list_column(lists, list_bits, taken, bits));
}

Row n_rows_of(AttributeColumn const& column) {
  return column.n_rows;
}

py::array sort_codes(AttributeColumn const& column) {
  return give(column.sort_codes());
}

// Runs f(bound, n_rows) without the GIL, with the program bound to columns of equal length.
template <typename F>
void run_bound(FilterProgram const& program, Columns const& columns, F f) {
  std::vector<AttributeColumn const*> pointers;
  for (auto const& column : take_all(columns)) pointers.push_back(column.get());
  Row const n_rows = columns.empty() ? 0 : columns.front()->n_rows;
  NativeRun const run;
  f(BoundFilter(program, pointers, n_rows), n_rows);
}

py::array_t<bool> evaluate(FilterProgram const& program, Columns const& columns) {
  take_all(columns);
  py::array_t<bool> matches(columns.empty() ? 0
                                            : static_cast<py::ssize_t>(columns.front()->n_rows));
  bool* const out = matches.mutable_data();
  run_bound(program, columns, [out](BoundFilter const& bound, Row n_rows) {
    for (Row row = 0; row < n_rows; row += kTileRows) {
      poll_interrupt();
      TileMask const mask = bound.evaluate(row / kTileRows);
      Row const n = std::min(kTileRows, n_rows - row);
      require(!(mask & ~TileMask::below(n)).any(), "no match past the last row");
      for (Row i = 0; i < n; ++i) out[row + i] = mask.test(i);
    }
  });
  return matches;
}

py::array_t<std::uint8_t> answers(FilterProgram const& program, Columns const& columns) {
  take_all(columns);
  py::array_t<std::uint8_t> given(
      columns.empty() ? 0 : static_cast<py::ssize_t>(columns.front()->n_tiles()));
  std::uint8_t* const out = given.mutable_data();
  run_bound(program, columns, [out](BoundFilter const& bound, Row n_rows) {
    for (Row row = 0; row < n_rows; row += kTileRows) {
      out[row / kTileRows] = static_cast<std::uint8_t>(bound.answer(row / kTileRows));
    }
  });
  return given;
}

}  // namespace

void bind_filter(py::module_& m) {
  py::class_<AttributeColumn, std::shared_ptr<AttributeColumn>>(
      m, "AttributeColumn",
      "A filterable column of one segment: codes, validity, dictionary and zone maps.")
      .def(py::init(&build_column), py::arg("values"), py::kw_only(), py::arg("text") = py::none(),
           py::arg("valid") = py::none(), py::arg("first_valid") = 0,
           py::arg("offsets") = py::none(), py::arg("list_valid") = py::none(),
           py::arg("first_list_valid") = 0,
           "Make a column from Arrow buffers. values: numbers, or with text= the int64 offsets of "
           "strings; valid, first_valid: the validity bits and the position of the first value's "
           "bit; offsets, list_valid, first_list_valid: the same for lists of values.")
      .def("__len__", &n_rows_of, "The number of rows.")
      .def_property_readonly("nbytes", &AttributeColumn::bytes, "Bytes of memory.")
      .def_property_readonly(
          "sort_codes", &sort_codes,
          "int64 per row of a column without lists, in the order of its values; null comes first.");

  py::class_<FilterProgram, std::shared_ptr<FilterProgram>>(
      m, "FilterProgram", "A filter compiled for a schema, valid for all of its segments.")
      .def(py::init<>(), "Every row.")
      .def_static("codes_between", &FilterProgram::codes_between,
                  "Match rows with a code from low to high.", py::arg("column"), py::arg("low"),
                  py::arg("high"))
      .def_static("text_between", &FilterProgram::text_between,
                  "Match rows with a string from low to high; None is open.", py::arg("column"),
                  py::arg("low"), py::arg("high"))
      .def_static("codes_any_of", &FilterProgram::codes_any_of, "Match rows with one of the codes.",
                  py::arg("column"), py::arg("codes"))
      .def_static("text_any_of", &FilterProgram::text_any_of, "Match rows with one of the strings.",
                  py::arg("column"), py::arg("texts"))
      .def_static("is_null", &FilterProgram::is_null, "Match rows without a value.",
                  py::arg("column"))
      .def_static("all_of", &FilterProgram::all_of,
                  "Match rows that match every part; without parts, every row.", py::arg("parts"))
      .def_static("any_of", &FilterProgram::any_of,
                  "Match rows that match at least one part; without parts, no row.",
                  py::arg("parts"))
      .def_static("complement", &FilterProgram::complement, "Match rows that the part does not.",
                  py::arg("part"))
      .def("evaluate", &evaluate, py::arg("columns"), "Return whether each row matches, (n_rows,).")
      .def("answers", &answers, py::arg("columns"),
           "Return the zone maps' result per tile, 0 none, 1 some, 2 all: uint8, (n_tiles,). For "
           "tests.");

  m.def("schema_metadata", &take_metadata, py::arg("schema"),
        "Return the (key, value) pairs of an object with __arrow_c_schema__, with repeated keys.");
}

}  // namespace hyrecall::bindings
