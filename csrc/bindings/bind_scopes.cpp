// Binds scopes: converts Python values to the engine's encoded cells.
#include <pybind11/stl.h>

#include <utility>

#include "bindings/bind.hpp"
#include "bindings/scopes.hpp"
#include "bindings/take.hpp"
#include "engine/segment/cells.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

constexpr std::size_t kMostQueries = std::size_t{1} << 28;  // 1 GiB of numbers of scopes

}  // namespace

Scopes::Scopes(std::vector<std::string> const& kinds, py::object scope_type, py::object read)
    : scope_type_(std::move(scope_type)), read_(std::move(read)) {
  for (std::string const& kind : kinds)
    kinds_.push_back(kind == "int64" ? Kind::kInt : kind == "bool" ? Kind::kBool : Kind::kString);
}

void Scopes::add(py::handle scope, std::size_t n_queries) {
  require(n_queries <= kMostQueries, "at most 2^28 queries");
  scope_of_.insert(scope_of_.end(), n_queries, number_of(scope, -1));
}

void Scopes::add_each(py::list const& scopes) {
  scope_of_.reserve(scope_of_.size() + scopes.size());
  distinct_.reserve(distinct_.size() + scopes.size());
  for (std::size_t i = 0; i < scopes.size(); ++i) {
    py::object const scope = scopes[i];
    scope_of_.push_back(number_of(scope, static_cast<std::int64_t>(i)));
  }
}

// Only Python's own types; `read` handles other types with equal values.
bool Scopes::append_value(py::handle value, Kind kind) {
  PyObject* const object = value.ptr();
  if (value.is_none()) {
    append_cell_value(bytes_, std::monostate{});
    return true;
  }
  if (kind == Kind::kString && PyUnicode_CheckExact(object)) {
    Py_ssize_t size = 0;
    char const* const text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) {
      PyErr_Clear();  // a lone surrogate
      return false;
    }
    append_cell_value(bytes_, std::string_view(text, static_cast<std::size_t>(size)));
    return true;
  }
  if (kind == Kind::kInt && PyLong_CheckExact(object)) {
    int overflow = 0;
    std::int64_t const number = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow != 0) return false;
    append_cell_value(bytes_, number);
    return true;
  }
  if (kind == Kind::kBool && PyBool_Check(object)) {
    append_cell_value(bytes_, object == Py_True);
    return true;
  }
  return false;
}

bool Scopes::append_cell(py::handle cell) {
  PyObject* const object = cell.ptr();
  if (static_cast<std::size_t>(PyTuple_GET_SIZE(object)) != kinds_.size()) return false;
  for (std::size_t i = 0; i < kinds_.size(); ++i) {
    if (!append_value(PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)), kinds_[i]))
      return false;
  }
  ends_.push_back(bytes_.size());
  return true;
}

bool Scopes::take_plain(py::handle scope) {
  if (PyTuple_CheckExact(scope.ptr())) return append_cell(scope);
  if (Py_TYPE(scope.ptr()) == reinterpret_cast<PyTypeObject*>(scope_type_.ptr())) {
    py::object const cells = py::getattr(scope, "cells", py::none());
    if (!PyTuple_CheckExact(cells.ptr())) return false;
    for (py::handle cell : py::reinterpret_borrow<py::tuple>(cells)) {
      if (!PyTuple_CheckExact(cell.ptr()) || !append_cell(cell)) return false;
    }
    return true;
  }
  // A plain value is a cell of one column; None is never a cell here.
  if (kinds_.size() != 1 || scope.is_none() || !append_value(scope, kinds_[0])) return false;
  ends_.push_back(bytes_.size());
  return true;
}

std::uint32_t Scopes::number_of(py::handle scope, std::int64_t place) {
  bytes_.clear();
  ends_.clear();
  bool const is_value = PyUnicode_Check(scope.ptr()) || PyLong_Check(scope.ptr());
  if (!is_value) {
    auto const known = met_.find(scope.ptr());
    if (known != met_.end()) return known->second.first;
  }
  if (!take_plain(scope)) {
    bytes_.clear();
    ends_.clear();
    std::string const argument = place < 0 ? "scope" : "scope[" + std::to_string(place) + "]";
    for (py::handle cell : py::list(read_(scope, argument))) {
      bytes_ += py::cast<std::string>(cell);
      ends_.push_back(bytes_.size());
    }
  }
  std::uint32_t const number = number_of_taken();
  if (!is_value)
    met_.emplace(scope.ptr(), std::pair(number, py::reinterpret_borrow<py::object>(scope)));
  return number;
}

std::uint32_t Scopes::number_of_taken() {
  std::uint32_t const number = numbers_.add(bytes_);
  if (number < distinct_.size()) return number;
  Scope scope;
  scope.cells.reserve(ends_.size());
  std::size_t begin = 0;
  for (std::size_t const end : ends_) {
    scope.cells.push_back(bytes_.substr(begin, end - begin));
    begin = end;
  }
  made_->push_back(std::move(scope));
  distinct_.emplace_back(made_, &made_->back());
  return number;
}

void bind_scopes(py::module_& m) {
  py::class_<Scopes>(m, "Scopes", "The scopes of a batch; equal ones are encoded once.")
      .def(py::init<std::vector<std::string> const&, py::object, py::object>(),
           "Make an empty list. kinds: the types of the cell columns; scope_type: the class of a "
           "set "
           "of cells; read(scope, argument): encodes the cells of any other scope.",
           py::arg("kinds"), py::arg("scope_type"), py::arg("read"))
      .def("add", &Scopes::add, "Add the same scope for n_queries queries.", py::arg("scope"),
           py::arg("n_queries"))
      .def("add_each", &Scopes::add_each, "Add a scope for each query.", py::arg("scopes"));
}

}  // namespace hyrecall::bindings
