// A zone map's entry for a tile of one attribute column, and the answers that it gives.
#pragma once

#include <cstdint>
#include <limits>

namespace hyrecall {

// NaN is a value (not null) that compares with nothing. It lies above code(+inf), outside every
// range with an end.
inline constexpr std::int64_t kNanCode = std::numeric_limits<std::int64_t>::max();

// What a tile of rows holds. A *comparable* element is any but NaN; a scalar row is its only
// element.
struct Zone {
  std::int64_t min = std::numeric_limits<std::int64_t>::max();  // over comparable elements; min >
                                                                // max: there are none
  std::int64_t max = std::numeric_limits<std::int64_t>::min();
  std::uint8_t n_null = 0;  // rows without a value
  std::uint8_t n_nan = 0;   // rows that hold a NaN
  std::uint8_t n_bare = 0;  // rows without a comparable element: null, NaN, an empty list
};

// A zone map's answer for the rows of a tile. kNone and kAll are always right; kSome promises
// nothing.
enum class ZoneAnswer : std::uint8_t { kNone, kSome, kAll };

}  // namespace hyrecall
