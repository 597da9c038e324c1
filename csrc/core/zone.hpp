// What a zone map holds of a tile of one attribute column, and what it can say.
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

// What a zone map says of the rows of a tile. It is sound: kNone and kAll are never wrong, kSome is
// no promise.
enum class ZoneAnswer : std::uint8_t { kNone, kSome, kAll };

}  // namespace hyrecall
