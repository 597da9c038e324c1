// The age of a row at the time of a call.
#pragma once

#include <cstdint>

namespace hyrecall {

// Seconds from a time to `now` (microseconds since 1970). The time counts ticks of so many
// nanoseconds since 1970. The difference is an integer of nanoseconds, or of microseconds if the
// column has nothing finer, and exact; only the conversion and the division round.
inline double age_seconds(std::int64_t time, std::int64_t tick, std::int64_t now) {
  __extension__ using Wide = __int128;
  bool const is_fine = tick < 1000;
  Wide const passed =
      is_fine ? Wide{now} * 1000 - Wide{time} * tick : Wide{now} - Wide{time} * (tick / 1000);
  return static_cast<double>(passed) / (is_fine ? 1e9 : 1e6);
}

}  // namespace hyrecall
