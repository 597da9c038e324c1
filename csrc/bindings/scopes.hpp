// The scopes of a batch, read from Python; equal scopes are encoded once.
#pragma once

#include <pybind11/pybind11.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/scope/selection.hpp"
#include "text/string_table.hpp"

namespace hyrecall::bindings {

class Scopes {
 public:
  // kinds: the Arrow types of the cell columns. scope_type: the class of a set of cells.
  // read(scope, argument): encodes the cells of other scopes, or raises an error.
  Scopes(std::vector<std::string> const& kinds, pybind11::object scope_type, pybind11::object read);

  void add(pybind11::handle scope, std::size_t n_queries);
  void add_each(pybind11::list const& scopes);

  std::vector<std::shared_ptr<Scope const>> const& distinct() const { return distinct_; }
  std::vector<std::uint32_t> const& scope_of() const { return scope_of_; }

 private:
  enum class Kind : std::uint8_t { kString, kInt, kBool };

  std::uint32_t number_of(pybind11::handle scope, std::int64_t place);
  bool take_plain(pybind11::handle scope);
  bool append_cell(pybind11::handle cell);
  bool append_value(pybind11::handle value, Kind kind);
  std::uint32_t number_of_taken();

  std::vector<Kind> kinds_;
  pybind11::object scope_type_;
  pybind11::object read_;
  std::shared_ptr<std::deque<Scope>> made_ = std::make_shared<std::deque<Scope>>();
  std::vector<std::shared_ptr<Scope const>> distinct_;  // into made_, one owner for all
  std::vector<std::uint32_t> scope_of_;                 // [n_queries]
  // By the bytes of all cells: cells have explicit ends, so equal bytes mean equal cells.
  text::StringTable numbers_;
  // By identity, for costly scopes; the objects are kept alive, so no address is reused.
  std::unordered_map<PyObject*, std::pair<std::uint32_t, pybind11::object>> met_;
  std::string bytes_;              // of the scope at hand
  std::vector<std::size_t> ends_;  // of its cells
};

}  // namespace hyrecall::bindings
