// Translates engine errors to Python exceptions by one table from ErrorCode to class.
#include <pybind11/pybind11.h>

#include <array>
#include <string>
#include <string_view>

#include "bindings/bind.hpp"
#include "core/error.hpp"

namespace py = pybind11;

namespace hyrecall::bindings {
namespace {

struct ErrorClass {
  ErrorCode code;
  char const* name;
  PyObject* const* parent;
  char const* doc;
};

std::array<ErrorClass, 9> const& error_classes() {
  static std::array<ErrorClass, 9> const table{{
      {ErrorCode::kShape, "ShapeError", &PyExc_ValueError,
       "Axes, extents or lengths do not agree."},
      {ErrorCode::kDtype, "DTypeError", &PyExc_TypeError, "An element type that is not supported."},
      {ErrorCode::kOption, "OptionError", &PyExc_ValueError, "A value outside its named range."},
      {ErrorCode::kScope, "ScopeError", &PyExc_LookupError,
       "No scope, or a scope that does not fit the schema."},
      {ErrorCode::kKey, "KeyConflictError", &PyExc_ValueError, "A duplicate or null key."},
      {ErrorCode::kDeviceUnavailable, "DeviceUnavailableError", &PyExc_RuntimeError,
       "The named device is not available."},
      {ErrorCode::kDeviceMemory, "DeviceMemoryError", &PyExc_MemoryError,
       "The device ran out of memory."},
      {ErrorCode::kCorrupt, "CorruptIndexError", &PyExc_OSError,
       "A file that is damaged or not a hyrecall file."},
      {ErrorCode::kInternal, "InternalError", &PyExc_RuntimeError,
       "An internal error of hyrecall."},
  }};
  return table;
}

// Shows bytes of a message that are not UTF-8, such as of a lone surrogate, as \xNN.
py::object give_text(std::string_view text) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "backslashreplace"));
}

// The Python class of each code, made when the module is loaded.
std::array<py::object, 9>& classes() {
  static std::array<py::object, 9> made;
  return made;
}

void set_error(ErrorCode code, py::object const& message, py::object const& argument) {
  py::object const& type = classes()[static_cast<std::size_t>(code)];
  py::object value = type(message);
  value.attr("argument") = argument;
  PyErr_SetObject(type.ptr(), value.ptr());
}

// Sets an error that names no argument of its own.
void set_error(ErrorCode code, std::string const& detail) {
  set_error(code, py::str("hyrecall: " + detail), py::str("hyrecall"));
}

void translate(std::exception_ptr raised) {
  try {
    if (raised) std::rethrow_exception(raised);
  } catch (Error const& error) {
    set_error(error.code(), give_text(error.what()), give_text(error.argument()));
  } catch (py::cast_error const&) {  // inside an argument that has no type of its own
    set_error(ErrorCode::kDtype, "expected another type of value");
  } catch (std::out_of_range const&) {
    set_error(ErrorCode::kInternal, "expected a number in range, got another");
  } catch (std::length_error const&) {
    set_error(ErrorCode::kOption, "expected a smaller number, got too many values");
  } catch (py::builtin_exception const&) {
    throw;  // knows its own type
  } catch (std::runtime_error const& error) {
    set_error(ErrorCode::kInternal,
              std::string("expected a call that succeeds, got ") + error.what());
  }
}

}  // namespace

void bind_errors(py::module_& m) {
  static py::object base;
  base = py::reinterpret_steal<py::object>(PyErr_NewExceptionWithDoc(
      "hyrecall.errors.HyrecallError",
      "Base of every error that hyrecall raises; `.argument` names the argument at fault.",
      PyExc_Exception, nullptr));
  m.attr("HyrecallError") = base;
  for (ErrorClass const& row : error_classes()) {
    py::tuple const parents = py::make_tuple(base, py::handle(*row.parent));
    std::string const name = std::string("hyrecall.errors.") + row.name;
    auto& made = classes()[static_cast<std::size_t>(row.code)];
    made = py::reinterpret_steal<py::object>(
        PyErr_NewExceptionWithDoc(name.c_str(), row.doc, parents.ptr(), nullptr));
    m.attr(row.name) = made;
  }
  py::register_local_exception_translator(&translate);
}

}  // namespace hyrecall::bindings
