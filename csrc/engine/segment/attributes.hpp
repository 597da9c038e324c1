// An attribute column of one immutable segment: what ad-hoc filters read.
//
// Every value becomes an int64 *code* whose order is the value's order, so that one comparison
// serves all types: integers as they are (uint64 with the sign bit flipped), bools, dates and times
// as their integer, floats by the bits of their float64, strings as their rank in the column's
// sorted dictionary.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "core/buffer.hpp"
#include "core/types.hpp"
#include "core/zone.hpp"

namespace hyrecall {

enum class CodeKind : std::uint8_t { kInteger, kFloat, kText };

struct AttributeColumn {
  CodeKind kind = CodeKind::kInteger;
  bool is_list = false;
  Row n_rows = 0;
  Buffer<std::int64_t> codes;    // [n_rows], of a list column [n_elements]; 0 where the row is null
  Buffer<std::int64_t> offsets;  // [n_rows + 1] of a list column, rising from 0; else empty
  Buffer<std::uint64_t>
      valid;           // [2 * n_tiles], bit set: the row has a value; empty: every row has one
  Strings dictionary;  // distinct strings in UTF-8 byte order; else empty

  Row n_tiles() const { return (n_rows + kTileRows - 1) / kTileRows; }
  // Rows that exist in a tile: kTileRows but in the last.
  Row rows_in(Row tile) const { return std::min(kTileRows, n_rows - tile * kTileRows); }
  // Rows of a tile that have a value; bits past n_rows mean nothing.
  TileMask valid_in(Row tile) const {
    return valid.empty() ? TileMask::all() : TileMask{valid[2 * tile], valid[2 * tile + 1]};
  }
  // [n_tiles], made by whoever asks first; the column does not change any more then.
  Buffer<Zone> const& zones() const;
  std::size_t bytes() const;
  // The code of a string; none if no row has it.
  std::optional<std::int64_t> find(std::string_view text) const;
  // A number for each row of a column without lists, in the order of its values; null comes first.
  std::vector<std::int64_t> sort_codes() const;

 private:
  // A plain pointer, because no fork may meet a lock that is held. Copies of the column share it.
  struct MadeZones {
    std::atomic<Buffer<Zone> const*> zones{nullptr};  // owned
    MadeZones() = default;
    MadeZones(MadeZones const&) = delete;
    MadeZones& operator=(MadeZones const&) = delete;
    ~MadeZones() { delete zones.load(std::memory_order_acquire); }
  };
  std::shared_ptr<MadeZones> made_ = std::make_shared<MadeZones>();
};

// Arrow's validity bits, least significant first. Null bits: everything is valid.
struct ValidityBits {
  std::uint8_t const* bits = nullptr;
  std::size_t first = 0;  // the bit of row 0

  bool operator[](std::size_t i) const {
    return bits == nullptr || ((bits[(first + i) >> 3] >> ((first + i) & 7)) & 1) != 0;
  }
};

// Values as Arrow lays them out, borrowed for the call; bools come as uint8, float16 as float32.
using ArrowValues = std::variant<std::span<std::int8_t const>, std::span<std::int16_t const>,
                                 std::span<std::int32_t const>, std::span<std::int64_t const>,
                                 std::span<std::uint8_t const>, std::span<std::uint16_t const>,
                                 std::span<std::uint32_t const>, std::span<std::uint64_t const>,
                                 std::span<float const>, std::span<double const>, Strings>;

// A column with one value a row. owner: of the values, where they need not be copied.
AttributeColumn build_scalar_column(ArrowValues const& values, ValidityBits valid,
                                    std::shared_ptr<void const> owner = nullptr);

// A column with a list a row: offsets [n_rows + 1] point into values. Null elements are left out.
AttributeColumn build_list_column(std::span<std::int64_t const> offsets, ValidityBits valid,
                                  ArrowValues const& values, ValidityBits elements_valid);

}  // namespace hyrecall
