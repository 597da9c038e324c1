// Binds rows of Arrow columns of plain types: read from Arrow, gathered by the engine, returned.
// Layouts: https://arrow.apache.org/docs/format/CDataInterface.html
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/take.hpp"
#include "engine/lexical/column.hpp"
#include "engine/segment/gather.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

// The buffers of an Arrow format string; width 0 means another type.
struct Shape {
  ValueLayout layout = ValueLayout::kFixed;
  std::size_t width = 0;  // bytes of a value, or of an offset
};

Shape shape_of(std::string const& format) {
  if (format == "U") return {ValueLayout::kString, 8};
  if (format == "b") return {ValueLayout::kBool, 1};
  if (format == "l" || format == "L" || format == "g" || format.starts_with("ts")) return {{}, 8};
  if (format == "i" || format == "I" || format == "f" || format == "tdD") return {{}, 4};
  return {};
}

// A column of a segment in row order.
struct RowColumn {
  std::string format;
  PlainColumn plain;

  explicit RowColumn(py::object const& source, std::shared_ptr<BlockChecks> const& checks) {
    TakenArray const taken = take_arrow(source, "column");
    ArrowArray const& array = *taken.array;
    format = taken.format;
    Shape const shape = shape_of(format);
    if (shape.width == 0 || array.dictionary != nullptr)
      throw Error(ErrorCode::kDtype, "column", "expected a plain column, got " + format);
    bool const is_string = shape.layout == ValueLayout::kString;
    bool const may_miss = array.null_count != 0 && array.buffers[0] != nullptr;
    plain = {shape.layout,
             shape.width,
             static_cast<std::size_t>(array.offset),
             static_cast<std::size_t>(array.length),
             may_miss ? static_cast<std::uint8_t const*>(array.buffers[0]) : nullptr,
             values_of(taken, 1, "column"),
             is_string ? static_cast<std::uint8_t const*>(values_of(taken, 2, "column")) : nullptr,
             taken.array,
             checks};
  }
};

// An array that is owned here until Arrow takes it.
struct GatheredArray {
  std::string format;
  GatheredColumn column;
  void const* buffers[3] = {};
};

// Empty buffers need an address too, because Arrow reads it.
template <typename T>
void const* address(std::vector<T> const& values) {
  static std::int64_t const kZero = 0;
  return values.empty() ? &kZero : static_cast<void const*>(values.data());
}

// The rows (source[i], row[i]) of one column of several segments.
std::unique_ptr<GatheredArray> gather(std::vector<std::shared_ptr<RowColumn>> const& columns,
                                      Array<std::uint32_t> const& source,
                                      Array<std::uint32_t> const& row) {
  take_all(columns);
  require(!columns.empty(), "a segment for every row");
  auto out = std::make_unique<GatheredArray>();
  out->format = columns.front()->format;
  std::vector<PlainColumn const*> plain;
  for (auto const& column : columns) {
    require(column->format == out->format, "columns of one type");
    plain.push_back(&column->plain);
  }
  std::span<std::uint32_t const> const sources = span_of(source);
  std::span<std::uint32_t const> const rows = span_of(row);
  WithoutGil const nogil;
  out->column = gather_rows(plain, sources, rows);
  return out;
}

template <typename T>
py::capsule capsule_of(std::unique_ptr<T> exported, char const* name) {
  return py::capsule(exported.release(), name, [](PyObject* capsule) {
    auto* const held = static_cast<T*>(PyCapsule_GetPointer(capsule, PyCapsule_GetName(capsule)));
    if (held->release != nullptr) held->release(held);
    delete held;
  });
}

// Hands the array over; a second call finds none.
py::tuple export_array(GatheredArray& source) {
  require(!source.format.empty(), "an array that nobody has taken");
  auto* const held = new GatheredArray(std::move(source));
  source.format.clear();
  GatheredColumn const& column = held->column;
  bool const is_string = column.layout == ValueLayout::kString;
  held->buffers[0] = column.n_missing == 0 ? nullptr : address(column.validity);
  held->buffers[1] = is_string ? address(column.offsets) : address(column.values);
  held->buffers[2] = is_string ? address(column.values) : nullptr;
  auto schema = std::make_unique<ArrowSchema>();
  auto* const format = new std::string(held->format);
  constexpr std::int64_t kNullable = 2;
  *schema = {format->c_str(),
             "",
             nullptr,
             kNullable,
             0,
             nullptr,
             nullptr,
             [](ArrowSchema* s) {
               delete static_cast<std::string*>(s->private_data);
               s->release = nullptr;
             },
             format};
  auto array = std::make_unique<ArrowArray>();
  *array = {static_cast<std::int64_t>(column.length),
            static_cast<std::int64_t>(column.n_missing),
            0,
            is_string ? 3 : 2,
            0,
            held->buffers,
            nullptr,
            nullptr,
            [](ArrowArray* a) {
              delete static_cast<GatheredArray*>(a->private_data);
              a->release = nullptr;
            },
            held};
  return py::make_tuple(capsule_of(std::move(schema), "arrow_schema"),
                        capsule_of(std::move(array), "arrow_array"));
}

py::array has_text(std::vector<std::shared_ptr<LexicalColumn>> const& columns,
                   Array<std::uint32_t> const& source, Array<std::uint32_t> const& row) {
  auto const taken = take_all(columns);
  std::vector<std::uint8_t> out;
  {
    WithoutGil const nogil;
    out = rows_with_text(taken, span_of(source), span_of(row));
  }
  return give(std::move(out));
}

py::tuple export_gathered(GatheredArray& held, py::object const&) {
  return export_array(held);
}

}  // namespace

void bind_rows(py::module_& parent) {
  py::module_ m =
      parent.def_submodule("rows", "Gathers rows of columns, and finds the rows that have a text.");
  py::class_<RowColumn, std::shared_ptr<RowColumn>>(m, "Column", "A column of a segment.")
      .def(py::init<py::object const&, std::shared_ptr<BlockChecks> const&>(),
           "Take over an Arrow array of a plain type. checks: of the file that it lies in, if "
           "nothing of it was read yet.",
           py::arg("source"), py::arg("checks") = nullptr);
  py::class_<GatheredArray>(m, "Gathered", "Values of some rows, until Arrow takes them.")
      .def("__arrow_c_array__", &export_gathered, "Hand the values over, once.",
           py::arg("schema") = py::none(), py::pos_only());
  m.def("gather", &gather, "Return the values of the rows (source[i], row[i]), in that order.",
        py::arg("columns"), py::arg("source"), py::arg("row"));
  m.def("has_text", &has_text, "Whether row[i] of columns[source[i]] has a text: bytes of 0 and 1.",
        py::arg("columns"), py::arg("source"), py::arg("row"));
}

}  // namespace hyrecall::bindings
