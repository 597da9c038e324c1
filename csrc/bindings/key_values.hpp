// Keys and other values of rows, each a string or an integer, between Arrow or Python and C++.
#pragma once

#include <pybind11/pybind11.h>

#include <string_view>
#include <variant>
#include <vector>

#include "bindings/take.hpp"
#include "engine/segment/keys.hpp"

namespace hyrecall::bindings {

// Values as Python gave them, which refer to the column.
struct TakenKeys {
  KeyColumn column;
  std::vector<KeyValue> values;

  explicit TakenKeys(pybind11::object const& keys) : column(take_keys(keys)) {
    for (std::size_t i = 0; i < n_keys(column); ++i) values.push_back(key_at(column, i));
  }
};

inline pybind11::list give_keys(std::vector<KeyValue> const& keys) {
  pybind11::list out;
  for (KeyValue const& key : keys) {
    if (auto const* text = std::get_if<std::string_view>(&key)) {
      out.append(pybind11::str(text->data(), text->size()));
    } else {
      out.append(pybind11::int_(std::get<std::int64_t>(key)));
    }
  }
  return out;
}

}  // namespace hyrecall::bindings
