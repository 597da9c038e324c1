#include "engine/segment/gather.hpp"

#include <algorithm>
#include <cstring>

#include "core/error.hpp"

namespace hyrecall {
namespace {

constexpr char const* kOutside = "rows of the snapshot";

bool bit_at(void const* bits, std::size_t at) {
  return (static_cast<std::uint8_t const*>(bits)[at / 8] >> (at % 8) & 1) != 0;
}

void set_bit(std::vector<std::uint8_t>& bits, std::size_t at) {
  bits[at / 8] = static_cast<std::uint8_t>(bits[at / 8] | 1U << (at % 8));
}

// Before values of a file are read that nothing has been read of yet.
void ensure_bytes(PlainColumn const& column, void const* values, std::size_t begin,
                  std::size_t n_bytes) {
  if (column.checks != nullptr)
    column.checks->ensure(static_cast<std::uint8_t const*>(values) + begin, n_bytes);
}

void ensure_row(PlainColumn const& column, std::size_t place) {
  if (column.checks == nullptr) return;
  if (column.validity != nullptr) ensure_bytes(column, column.validity, place / 8, 1);
  switch (column.layout) {
    case ValueLayout::kString:
      ensure_bytes(column, column.values, place * sizeof(std::int64_t), 2 * sizeof(std::int64_t));
      ensure_bytes(column, column.values, (column.offset + column.length) * sizeof(std::int64_t),
                   sizeof(std::int64_t));
      break;
    case ValueLayout::kBool:
      ensure_bytes(column, column.values, place / 8, 1);
      break;
    case ValueLayout::kFixed:
      ensure_bytes(column, column.values, place * column.width, column.width);
      break;
  }
}

// Columns of values of one width, none of them missing: nothing but loads and stores, so that the
// processor waits for many rows at once.
template <std::size_t kWidth>
void copy_values(std::span<PlainColumn const* const> columns, std::span<std::uint32_t const> source,
                 std::span<Row const> row, std::vector<std::uint8_t>& out) {
  struct Values {
    std::uint8_t const* bytes;
    std::size_t offset, length;
  };
  std::vector<Values> values;
  for (PlainColumn const* column : columns)
    values.push_back(
        {static_cast<std::uint8_t const*>(column->values), column->offset, column->length});
  bool are_there = true;
  for (std::size_t i = 0; i < row.size(); ++i)
    are_there = are_there && source[i] < values.size() && row[i] < values[source[i]].length;
  require(are_there, kOutside);
  for (std::size_t i = 0; i < row.size(); ++i)
    ensure_row(*columns[source[i]], columns[source[i]]->offset + row[i]);
  out.resize(row.size() * kWidth);
  for (std::size_t i = 0; i < row.size(); ++i) {
    Values const& from = values[source[i]];
    std::memcpy(out.data() + i * kWidth, from.bytes + (from.offset + row[i]) * kWidth, kWidth);
  }
}

void append_string(PlainColumn const& column, std::size_t place, std::vector<std::uint8_t>& out) {
  auto const* const offsets = static_cast<std::int64_t const*>(column.values);
  std::int64_t const begin = offsets[place], end = offsets[place + 1];
  // Columns are checked when they come in; a forged file may hold others.
  if (begin < 0 || begin > end || end > offsets[column.offset + column.length])
    throw Error(ErrorCode::kCorrupt, "column", "expected rising offsets, got others");
  ensure_bytes(column, column.bytes, static_cast<std::size_t>(begin),
               static_cast<std::size_t>(end - begin));
  out.insert(out.end(), column.bytes + begin, column.bytes + end);
}

}  // namespace

GatheredColumn gather_rows(std::span<PlainColumn const* const> columns,
                           std::span<std::uint32_t const> source, std::span<Row const> row) {
  require(!columns.empty() && source.size() == row.size(), "a segment for every row");
  PlainColumn const& first = *columns.front();
  for (PlainColumn const* column : columns)
    require(column->layout == first.layout && column->width == first.width, "columns of one type");
  GatheredColumn out;
  out.layout = first.layout;
  out.length = row.size();
  bool const is_whole = std::none_of(columns.begin(), columns.end(), [](auto const* column) {
    return column->validity != nullptr;
  });
  if (first.layout == ValueLayout::kFixed && is_whole) {
    if (first.width == 8) {
      copy_values<8>(columns, source, row, out.values);
    } else {
      copy_values<4>(columns, source, row, out.values);
    }
    return out;
  }
  std::size_t const n_bit_bytes = (row.size() + 7) / 8;
  out.validity.assign(n_bit_bytes, 0);
  if (first.layout == ValueLayout::kString) out.offsets.assign(1, 0);
  if (first.layout == ValueLayout::kBool) out.values.assign(n_bit_bytes, 0);
  if (first.layout == ValueLayout::kFixed) out.values.assign(row.size() * first.width, 0);
  for (std::size_t i = 0; i < row.size(); ++i) {
    require(source[i] < columns.size() && row[i] < columns[source[i]]->length, kOutside);
    PlainColumn const& column = *columns[source[i]];
    std::size_t const place = column.offset + row[i];
    ensure_row(column, place);
    bool const is_there = column.validity == nullptr || bit_at(column.validity, place);
    if (is_there) {
      set_bit(out.validity, i);
    } else {
      out.n_missing += 1;
    }
    switch (first.layout) {
      case ValueLayout::kString:
        if (is_there) append_string(column, place, out.values);
        out.offsets.push_back(static_cast<std::int64_t>(out.values.size()));
        break;
      case ValueLayout::kBool:
        if (bit_at(column.values, place)) set_bit(out.values, i);
        break;
      case ValueLayout::kFixed:
        std::memcpy(out.values.data() + i * first.width,
                    static_cast<std::uint8_t const*>(column.values) + place * first.width,
                    first.width);
        break;
    }
  }
  return out;
}

}  // namespace hyrecall
