// Checked views of incoming columns: values, validity, offsets, each kept alive by its owner.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/buffer.hpp"
#include "core/types.hpp"

namespace hyrecall {

// Arrow validity: bit offset + i says whether value i is there; no bits = all are.
struct Validity {
  Buffer<std::uint8_t> bits;
  std::int64_t offset = 0;

  bool operator[](std::size_t i) const {
    if (bits.empty()) return true;
    std::size_t const at = static_cast<std::size_t>(offset) + i;
    return ((bits[at / 8] >> (at % 8)) & 1) != 0;
  }
};

struct StringColumn {
  Strings values;
  Validity valid;
  std::size_t size() const { return values.size(); }
};

struct IntColumn {
  Buffer<std::int64_t> values;
  Validity valid;
  std::size_t size() const { return values.size(); }
};

struct BoolColumn {
  Buffer<std::uint8_t> bits;
  std::int64_t offset = 0;
  std::size_t length = 0;
  Validity valid;
  std::size_t size() const { return length; }
  bool operator[](std::size_t i) const {
    std::size_t const at = static_cast<std::size_t>(offset) + i;
    return ((bits[at / 8] >> (at % 8)) & 1) != 0;
  }
};

using CellPart = std::variant<StringColumn, IntColumn, BoolColumn>;  // one cell column
using KeyColumn = std::variant<StringColumn, IntColumn>;

// A column that came in pieces; row i of the whole is row i - starts[c] of chunk c.
template <typename Column>
struct Chunked {
  std::vector<Column> chunks;
  std::vector<std::size_t> starts{0};  // [n_chunks + 1]

  void append(Column column) {
    starts.push_back(starts.back() + column.size());
    chunks.push_back(std::move(column));
  }
  std::size_t size() const { return starts.back(); }
  struct At {
    Column const& chunk;
    std::size_t row;
  };
  At at(std::size_t row) const {
    std::size_t const c =
        static_cast<std::size_t>(std::upper_bound(starts.begin(), starts.end(), row) -
                                 starts.begin()) -
        1;
    return {chunks[c], row - starts[c]};
  }
};

}  // namespace hyrecall
