// Rows of plain Arrow columns, gathered: a reply is ten rows or so, of which Arrow's own way there
// (a registry, a dispatch, a plan) costs more than all else of a small recall.
// Layouts: https://arrow.apache.org/docs/format/CDataInterface.html
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bindings/bind.hpp"
#include "bindings/take.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

constexpr char const* kOutside = "rows of the snapshot";

enum class Layout { kFixed, kString, kBool };

// What an Arrow format string says of the buffers; width 0: not one of these.
struct Shape {
  Layout layout = Layout::kFixed;
  std::size_t width = 0;  // bytes of a value, or of an offset
};

Shape shape_of(std::string const& format) {
  if (format == "U") return {Layout::kString, 8};
  if (format == "b") return {Layout::kBool, 1};
  if (format == "l" || format == "L" || format == "g" || format.starts_with("ts")) return {{}, 8};
  if (format == "i" || format == "I" || format == "f" || format == "tdD") return {{}, 4};
  return {};
}

bool bit_at(void const* bits, std::size_t at) {
  return (static_cast<std::uint8_t const*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

void set_bit(std::vector<std::uint8_t>& bits, std::size_t at) {
  bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | 1U << (at % 8));
}

// A column of a segment, in its rows' order.
struct RowColumn {
  TakenArray taken;
  Shape shape;

  explicit RowColumn(py::handle source) : taken(take_arrow(source, "column")) {
    shape = shape_of(taken.format);
    if (shape.width == 0 || taken.array->dictionary != nullptr)
      throw Error(ErrorCode::kDtype, "column", "expected a plain column, got " + taken.format);
  }
  std::size_t place(std::uint32_t row) const {
    require(row < taken.array->length, kOutside);
    return static_cast<std::size_t>(taken.array->offset) + row;
  }
  std::int64_t n_bytes() const {  // of a string column, all values together
    return static_cast<std::int64_t const*>(
        taken.array->buffers[1])[taken.array->offset + taken.array->length];
  }
  bool may_miss() const {
    return taken.array->null_count != 0 && taken.array->buffers[0] != nullptr;
  }
  bool has(std::size_t place) const {
    return !may_miss() || bit_at(taken.array->buffers[0], place);
  }
};

// An array of our own, until Arrow takes it.
struct GatheredArray {
  std::string format;
  std::int64_t length = 0;
  std::int64_t null_count = 0;
  std::vector<std::uint8_t> validity;
  std::vector<std::int64_t> offsets;
  std::vector<std::uint8_t> values;
  void const* buffers[3] = {};
};

// Buffers that hold nothing are still there: Arrow asks for their address.
template <typename T>
void const* address(std::vector<T> const& values) {
  static std::int64_t const kZero = 0;
  return values.empty() ? &kZero : static_cast<void const*>(values.data());
}

// Columns of values of one width, none of them missing: nothing but loads and stores, so that the
// processor waits for many rows at once.
template <std::size_t kWidth>
void copy_values(std::span<std::shared_ptr<RowColumn> const> columns,
                 std::span<std::uint32_t const> source, std::span<std::uint32_t const> row,
                 std::vector<std::uint8_t>& out) {
  struct Values {
    std::uint8_t const* bytes;
    std::size_t offset, length;
  };
  std::vector<Values> values;
  for (auto const& column : columns) {
    ArrowArray const& array = *column->taken.array;
    values.push_back({static_cast<std::uint8_t const*>(array.buffers[1]),
                      static_cast<std::size_t>(array.offset),
                      static_cast<std::size_t>(array.length)});
  }
  bool are_there = true;
  for (std::size_t i = 0; i < row.size(); ++i)
    are_there = are_there && source[i] < values.size() && row[i] < values[source[i]].length;
  require(are_there, kOutside);
  out.resize(row.size() * kWidth);
  for (std::size_t i = 0; i < row.size(); ++i) {
    Values const& from = values[source[i]];
    std::memcpy(out.data() + i * kWidth, from.bytes + (from.offset + row[i]) * kWidth, kWidth);
  }
}

template <typename Each>
void append_rows(GatheredArray& out, Shape shape, std::size_t n_rows, Each const& each) {
  out.length = static_cast<std::int64_t>(n_rows);
  out.validity.assign((n_rows + 7) / 8, 0);
  if (shape.layout == Layout::kString) out.offsets.assign(1, 0);
  out.values.assign(shape.layout == Layout::kString ? 0
                    : shape.layout == Layout::kBool ? (n_rows + 7) / 8
                                                    : n_rows * shape.width,
                    0);
  for (std::size_t i = 0; i < n_rows; ++i) {
    auto const [column, place] = each(i);
    bool const is_there = column->has(place);
    if (is_there) {
      set_bit(out.validity, i);
    } else {
      out.null_count += 1;
    }
    void const* const* const buffers = column->taken.array->buffers;
    if (shape.layout == Layout::kString) {
      if (is_there) {
        auto const* const offsets = static_cast<std::int64_t const*>(buffers[1]) + place;
        auto const* const bytes = static_cast<std::uint8_t const*>(buffers[2]);
        // Columns are checked when they come in; a file of an earlier version may hold others.
        if (offsets[0] < 0 || offsets[0] > offsets[1] || offsets[1] > column->n_bytes())
          throw Error(ErrorCode::kCorrupt, "column", "expected rising offsets, got others");
        out.values.insert(out.values.end(), bytes + offsets[0], bytes + offsets[1]);
      }
      out.offsets.push_back(static_cast<std::int64_t>(out.values.size()));
    } else if (shape.layout == Layout::kBool) {
      if (bit_at(buffers[1], place)) set_bit(out.values, i);
    } else {
      std::memcpy(out.values.data() + i * shape.width,
                  static_cast<std::uint8_t const*>(buffers[1]) + place * shape.width, shape.width);
    }
  }
}

// The rows (source[i], row[i]) of one column that lies in several segments.
std::unique_ptr<GatheredArray> gather(std::vector<std::shared_ptr<RowColumn>> const& columns,
                                      Array<std::uint32_t> const& source,
                                      Array<std::uint32_t> const& row) {
  take_all(columns);
  require(!columns.empty() && source.size() == row.size(), "a segment for every row");
  auto out = std::make_unique<GatheredArray>();
  out->format = columns.front()->taken.format;
  for (auto const& column : columns)
    require(column->taken.format == out->format, "columns of one type");
  std::span<std::uint32_t const> const sources = span_of(source);
  std::span<std::uint32_t const> const rows = span_of(row);
  WithoutGil const nogil;
  Shape const shape = columns.front()->shape;
  bool const is_whole = std::none_of(columns.begin(), columns.end(),
                                     [](auto const& column) { return column->may_miss(); });
  if (shape.layout == Layout::kFixed && is_whole) {
    out->length = static_cast<std::int64_t>(rows.size());
    if (shape.width == 8) {
      copy_values<8>(columns, sources, rows, out->values);
    } else {
      copy_values<4>(columns, sources, rows, out->values);
    }
    return out;
  }
  append_rows(*out, shape, rows.size(), [&](std::size_t i) {
    require(sources[i] < columns.size(), kOutside);
    RowColumn const& column = *columns[sources[i]];
    return std::pair(&column, column.place(rows[i]));
  });
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

// Hands the array over; a second time there is nothing left.
py::tuple export_array(GatheredArray& source) {
  require(!source.format.empty(), "an array that nobody has taken");
  auto* const held = new GatheredArray(std::move(source));
  source.format.clear();
  bool const is_string = !held->offsets.empty();
  held->buffers[0] = held->null_count == 0 ? nullptr : address(held->validity);
  held->buffers[1] = is_string ? address(held->offsets) : address(held->values);
  held->buffers[2] = is_string ? address(held->values) : nullptr;
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
  *array = {held->length,
            held->null_count,
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

}  // namespace

void bind_rows(py::module_& parent) {
  py::module_ m = parent.def_submodule("rows", "Rows of plain Arrow columns, gathered.");
  py::class_<RowColumn, std::shared_ptr<RowColumn>>(m, "Column")
      .def(py::init([](py::object const& source) { return std::make_shared<RowColumn>(source); }),
           py::arg("source"));
  py::class_<GatheredArray>(m, "Gathered")
      .def(
          "__arrow_c_array__",
          [](GatheredArray& held, py::object const&) { return export_array(held); },
          py::arg("schema") = py::none(), py::pos_only());
  m.def("gather", &gather, "The rows (source[i], row[i]) of columns[source[i]], in that order.",
        py::arg("columns"), py::arg("source"), py::arg("row"));
}

}  // namespace hyrecall::bindings
