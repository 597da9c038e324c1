// Rows of a column that lies in several segments, copied into one: of numbers, bits and strings in
// Arrow's layout. A reply is ten rows or so, of which Arrow's own way there (a registry, a
// dispatch, a plan) costs more than all else of a small recall. Layouts:
// https://arrow.apache.org/docs/format/Columnar.html
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/block_checks.hpp"
#include "core/types.hpp"

namespace hyrecall {

enum class ValueLayout : std::uint8_t { kFixed, kString, kBool };

// A column of a segment, in its rows' order. What it points to lives as long as `owner`.
struct PlainColumn {
  ValueLayout layout = ValueLayout::kFixed;
  std::size_t width = 0;  // of kFixed: bytes of a value, 4 or 8
  std::size_t offset = 0;
  std::size_t length = 0;
  std::uint8_t const* validity = nullptr;  // a bit a value; null: none is missing
  void const* values = nullptr;            // of kString: int64 offsets
  std::uint8_t const* bytes = nullptr;     // of kString
  std::shared_ptr<void const> owner{};
  std::shared_ptr<BlockChecks const> checks{};  // of the file it lies in; null: it was checked
};

struct GatheredColumn {
  ValueLayout layout = ValueLayout::kFixed;
  std::size_t length = 0;
  std::size_t n_missing = 0;
  std::vector<std::uint8_t> validity;  // a bit a value; empty or all set where none is missing
  std::vector<std::int64_t> offsets;   // of kString: [length + 1]
  std::vector<std::uint8_t> values;
};

// The rows (source[i], row[i]) of columns[source[i]], in that order. The columns are of one layout
// and width. Throws where there is no such row, and kCorrupt where a string's offsets are not ones.
GatheredColumn gather_rows(std::span<PlainColumn const* const> columns,
                           std::span<std::uint32_t const> source, std::span<Row const> row);

}  // namespace hyrecall
