// What the fuzz targets share: invariants, and the switch that plants a bug in an oracle.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace hyrecall::fuzzing {

inline void fail(char const* what) {
  std::fprintf(stderr, "INVARIANT: %s\n", what);
  std::abort();
}

// HYRECALL_FUZZ_PLANTED=1 makes the target's own oracle wrong for some inputs: fuzzing that does
// not find such an input would find no bug either.
inline bool is_planted() {
  static bool const planted = std::getenv("HYRECALL_FUZZ_PLANTED") != nullptr;
  return planted;
}

inline bool says() {
  static bool const said = std::getenv("HYRECALL_FUZZ_SAY") != nullptr;
  return said;
}

}  // namespace hyrecall::fuzzing

#define REQUIRE(condition)                                   \
  do {                                                       \
    if (!(condition)) ::hyrecall::fuzzing::fail(#condition); \
  } while (false)
