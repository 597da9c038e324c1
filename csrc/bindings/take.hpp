// Borrows Arrow arrays (by the C data interface) and NumPy arrays from Python, and returns arrays
// to Python. Layouts: the Arrow C data interface,
// https://arrow.apache.org/docs/format/CDataInterface.html
#pragma once

#include <pybind11/numpy.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings/gil.hpp"
#include "core/error.hpp"
#include "core/formulas.hpp"
#include "engine/segment/columns.hpp"
#include "kernels/shared/arithmetic_op.hpp"

namespace hyrecall::bindings {

struct ArrowSchema {
  char const* format;
  char const* name;
  char const* metadata;
  std::int64_t flags;
  std::int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  std::int64_t length;
  std::int64_t null_count;
  std::int64_t offset;
  std::int64_t n_buffers;
  std::int64_t n_children;
  void const** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

// An Arrow array with shared ownership, and its format string.
struct TakenArray {
  std::string format;
  std::shared_ptr<ArrowArray> array;
};

// Refuses lengths and offsets below 0, or beyond int64 together, also of children and dictionaries,
// and rows beyond the end of what fixed-size lists and structs hold. pyarrow imports all of these,
// reads by them when it validates an array, and does not compare the rows of fixed-size lists.
inline void check_layout(ArrowSchema const& schema, ArrowArray const& array, char const* argument) {
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max() / 64;
  auto const is_count = [](std::int64_t value) { return 0 <= value && value <= kMost; };
  if (!is_count(array.length) || !is_count(array.offset))
    throw Error(ErrorCode::kOption, argument,
                "expected Arrow arrays with an offset and a length of at least 0, got offset " +
                    std::to_string(array.offset) + " and length " + std::to_string(array.length));
  std::string_view const format = schema.format;
  bool const is_fixed = format.starts_with("+w:");
  if (schema.n_children != array.n_children ||
      (schema.dictionary == nullptr) != (array.dictionary == nullptr))
    throw Error(ErrorCode::kOption, argument,
                "expected Arrow arrays with the parts of their type, got others");
  std::int64_t const width = is_fixed ? std::max(std::atoll(schema.format + 3), 0LL) : 1;
  for (std::int64_t i = 0; i < array.n_children; ++i) {
    ArrowArray const& child = *array.children[i];
    check_layout(*schema.children[i], child, argument);
    if ((is_fixed || format == "+s") && width > 0 &&
        array.offset + array.length > child.length / width)
      throw Error(ErrorCode::kOption, argument,
                  "expected Arrow arrays whose parts hold all their rows, got " +
                      std::to_string(child.length) + " values for the offset " +
                      std::to_string(array.offset) + " and the length " +
                      std::to_string(array.length));
  }
  if (array.dictionary != nullptr) check_layout(*schema.dictionary, *array.dictionary, argument);
}

// The values of an array that has some; a row without a buffer is refused.
inline void const* values_of(TakenArray const& taken, std::int64_t at, char const* argument) {
  ArrowArray const& a = *taken.array;
  if (a.n_buffers <= at || (a.length > 0 && a.buffers[at] == nullptr && at < 2))
    throw Error(ErrorCode::kDtype, argument,
                "expected an array with all of its buffers, got one " +
                    ("without the buffer " + std::to_string(at)));
  return a.buffers[at];
}

// An array of any type, whose offsets and lengths are counts.
inline TakenArray take_any_arrow(pybind11::handle source, char const* argument) {
  if (!pybind11::hasattr(source, "__arrow_c_array__")) {
    throw Error(ErrorCode::kDtype, argument,
                std::string("expected an Arrow array, got ") + Py_TYPE(source.ptr())->tp_name);
  }
  pybind11::object const made = source.attr("__arrow_c_array__")();
  auto const pair = pybind11::cast<pybind11::tuple>(made);
  auto* const schema = static_cast<ArrowSchema*>(
      PyCapsule_GetPointer(pybind11::object(pair[0]).ptr(), "arrow_schema"));
  auto* const array = static_cast<ArrowArray*>(
      PyCapsule_GetPointer(pybind11::object(pair[1]).ptr(), "arrow_array"));
  if (schema == nullptr || array == nullptr) throw pybind11::error_already_set();
  if (schema->release == nullptr || array->release == nullptr)
    throw Error(ErrorCode::kDtype, argument, "expected an Arrow array, got one that is released");
  TakenArray taken;
  taken.format = schema->format;
  // Moves the array out; the capsule then sees a released array and does not free it.
  taken.array = std::shared_ptr<ArrowArray>(new ArrowArray(*array), [](ArrowArray* held) {
    if (held->release != nullptr) held->release(held);
    delete held;
  });
  array->release = nullptr;
  check_layout(*schema, *taken.array, argument);
  return taken;
}

inline TakenArray take_arrow(pybind11::handle source, char const* argument) {
  TakenArray taken = take_any_arrow(source, argument);
  if (taken.array->n_buffers < 2)
    throw Error(ErrorCode::kDtype, argument,
                "expected a primitive or string array, got " + taken.format);
  return taken;
}

inline Validity take_validity(TakenArray const& taken) {
  ArrowArray const& a = *taken.array;
  if (a.null_count == 0 || a.buffers[0] == nullptr || a.length == 0) return {};
  auto const n_bytes = static_cast<std::size_t>((a.offset + a.length + 7) / 8);
  return {
      Buffer<std::uint8_t>(static_cast<std::uint8_t const*>(a.buffers[0]), n_bytes, taken.array),
      a.offset};
}

// Refuses offsets that decrease or exceed n_values.
inline void check_offsets(std::span<std::int64_t const> offsets, std::int64_t n_values,
                          char const* argument) {
  bool sound = !offsets.empty() && offsets.front() >= 0 && offsets.back() <= n_values;
  for (std::size_t i = 1; i < offsets.size(); ++i) sound &= offsets[i - 1] <= offsets[i];
  if (!sound)
    throw Error(ErrorCode::kShape, argument, "expected rising offsets into the values, got others");
}

// is_late: whoever reads the strings checks the offsets before.
inline StringColumn take_strings(TakenArray const& taken, char const* argument,
                                 bool is_late = false) {
  if (taken.format != "U" && taken.format != "Z") {
    throw Error(ErrorCode::kDtype, argument,
                "expected large_string, got Arrow format " + taken.format);
  }
  ArrowArray const& a = *taken.array;
  StringColumn out;
  if (a.length == 0) {
    out.values.offsets = std::vector<std::int64_t>{0};
    return out;
  }
  auto const* const offsets =
      static_cast<std::int64_t const*>(values_of(taken, 1, argument)) + a.offset;
  out.values.offsets =
      Buffer<std::int64_t>(offsets, static_cast<std::size_t>(a.length) + 1, taken.array);
  // Arrow does not give the number of bytes; the last offset is used for it.
  auto const all = out.values.offsets.span();
  check_offsets(is_late ? all.last(1) : all, offsets[a.length], argument);
  out.values.bytes =
      Buffer<std::uint8_t>(static_cast<std::uint8_t const*>(values_of(taken, 2, argument)),
                           static_cast<std::size_t>(offsets[a.length]), taken.array);
  out.valid = take_validity(taken);
  return out;
}

inline IntColumn take_ints(TakenArray const& taken, char const* argument) {
  ArrowArray const& a = *taken.array;
  auto const* const values = static_cast<std::int64_t const*>(values_of(taken, 1, argument));
  return {Buffer<std::int64_t>(values == nullptr ? nullptr : values + a.offset,
                               static_cast<std::size_t>(a.length), taken.array),
          take_validity(taken)};
}

inline CellPart take_cell_part(pybind11::handle source, char const* argument) {
  TakenArray const taken = take_arrow(source, argument);
  if (taken.format == "l") return take_ints(taken, argument);
  if (taken.format == "b") {
    ArrowArray const& a = *taken.array;
    auto const n_bytes = static_cast<std::size_t>((a.offset + a.length + 7) / 8);
    return BoolColumn{
        Buffer<std::uint8_t>(static_cast<std::uint8_t const*>(values_of(taken, 1, argument)),
                             n_bytes, taken.array),
        a.offset, static_cast<std::size_t>(a.length), take_validity(taken)};
  }
  return take_strings(taken, argument);
}

// Each has n_rows rows.
inline std::vector<CellPart> take_cell_parts(pybind11::list const& sources, std::size_t n_rows) {
  require(n_rows < kNone32, "fewer than 2^32 - 1 rows");
  std::vector<CellPart> parts;
  for (pybind11::handle source : sources) {
    parts.push_back(take_cell_part(source, "cell"));
    bool const fits = std::visit([&](auto const& p) { return p.size() == n_rows; }, parts.back());
    require(fits, "a value of each cell column for every row");
  }
  return parts;
}

inline KeyColumn take_keys(pybind11::handle source, bool is_late = false) {
  TakenArray const taken = take_arrow(source, "key");
  if (taken.format == "l") return take_ints(taken, "key");
  return take_strings(taken, "key", is_late);
}

// pybind11 allows None for a holder; here it is refused.
template <typename T>
std::vector<std::shared_ptr<T const>> take_all(std::vector<std::shared_ptr<T>> const& held) {
  for (auto const& one : held) {
    if (one == nullptr) throw Error(ErrorCode::kDtype, "hyrecall", "expected an object, got None");
  }
  return {held.begin(), held.end()};
}

// ---- NumPy
// --------------------------------------------------------------------------------------------------------

template <typename T>
using Array = pybind11::array_t<T, pybind11::array::c_style>;

template <typename T>
std::span<T const> span_of(Array<T> const& array) {
  return {array.data(), static_cast<std::size_t>(array.size())};
}

// Keeps a Python object alive; may be released on a thread without the GIL.
inline std::shared_ptr<void const> keep(pybind11::object object) {
  return {new pybind11::object(std::move(object)),
          [](pybind11::object* held) { call_python([held] { delete held; }); }};
}

template <typename T>
Buffer<T> take_buffer(pybind11::array const& array, char const* argument) {
  if (!pybind11::isinstance<Array<T>>(array))
    throw Error(ErrorCode::kDtype, argument, "expected another element type");
  return Buffer<T>(static_cast<T const*>(array.data()), static_cast<std::size_t>(array.size()),
                   keep(array));
}

// A read-only array over memory that `owner` keeps.
template <typename T>
pybind11::array give_view(std::span<T const> values, pybind11::handle owner) {
  pybind11::array_t<T> array(static_cast<pybind11::ssize_t>(values.size()), values.data(), owner);
  // Like setflags(write=False), without a call to Python.
  pybind11::detail::array_proxy(array.ptr())->flags &=
      ~pybind11::detail::npy_api::NPY_ARRAY_WRITEABLE_;
  return array;
}

// The same over memory owned by C++.
template <typename T>
pybind11::array give(Buffer<T> const& buffer) {
  auto* const owner = new std::shared_ptr<void const>(buffer.owner());
  pybind11::capsule const base(
      owner, [](void* held) { delete static_cast<std::shared_ptr<void const>*>(held); });
  return give_view(buffer.span(), base);
}

template <typename T>
pybind11::array give(std::vector<T> values) {
  return give(Buffer<T>(std::move(values)));
}

// The metadata of a schema in its order, with repeated keys, which pyarrow drops. Format: int32
// number of pairs, then int32 length and bytes of each key and value.
inline pybind11::list take_metadata(pybind11::handle source) {
  if (!pybind11::hasattr(source, "__arrow_c_schema__")) {
    throw Error(ErrorCode::kDtype, "schema",
                std::string("expected an Arrow schema, got ") + Py_TYPE(source.ptr())->tp_name);
  }
  pybind11::object const capsule = source.attr("__arrow_c_schema__")();
  auto const* const schema =
      static_cast<ArrowSchema*>(PyCapsule_GetPointer(capsule.ptr(), "arrow_schema"));
  if (schema == nullptr) throw pybind11::error_already_set();
  pybind11::list out;
  char const* at = schema->metadata;
  if (at == nullptr) return out;
  auto const take_int = [&at] {
    std::int32_t value;
    std::memcpy(&value, at, sizeof value);
    at += sizeof value;
    return value;
  };
  auto const take_bytes = [&] {
    auto const size = static_cast<std::size_t>(take_int());
    pybind11::bytes value(at, size);
    at += size;
    return value;
  };
  for (std::int32_t left = take_int(); left > 0; --left) {
    pybind11::bytes key = take_bytes();
    out.append(pybind11::make_tuple(std::move(key), take_bytes()));
  }
  return out;
}

// Reads (variant, k1, b, delta), as in BM25.numbers of hyrecall.text.bm25.
using Bm25Numbers = std::tuple<std::string, double, double, double, double>;

inline Bm25Variant take_variant(std::string const& name) {
  if (name == "lucene") return Bm25Variant::kLucene;
  if (name == "okapi") return Bm25Variant::kOkapi;
  if (name == "fts5") return Bm25Variant::kFts5;
  if (name == "robertson") return Bm25Variant::kRobertson;
  if (name == "atire") return Bm25Variant::kAtire;
  if (name == "bm25+") return Bm25Variant::kPlus;
  if (name == "bm25l") return Bm25Variant::kLong;
  throw Error(ErrorCode::kOption, "bm25", "expected a variant of BM25, got " + name);
}

inline Bm25 take_bm25(Bm25Numbers const& numbers) {
  auto const& [variant, k1, b, delta, b_mixed] = numbers;
  return {take_variant(variant), k1, b, delta, b_mixed};
}

// Returns a formula of the golden table.
inline ArithmeticOp take_op(std::string const& name) {
  for (auto const& [known, op] : kArithmeticOps) {
    if (name == known) return op;
  }
  throw Error(ErrorCode::kOption, "op", "expected the name of a formula, got " + name);
}

}  // namespace hyrecall::bindings
