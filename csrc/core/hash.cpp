#include "core/hash.hpp"

#include <chrono>
#include <exception>
#include <random>

namespace hyrecall {

HashSecret draw_hash_secret() {
  std::uint64_t drawn[3] = {};
  try {
    std::random_device system;
    for (std::uint64_t& word : drawn) word = std::uint64_t{system()} << 32 | system();
  } catch (std::exception const&) {  // no source of random numbers: use the clock
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    for (std::uint64_t& word : drawn)
      word = mix64(static_cast<std::uint64_t>(now) + static_cast<std::uint64_t>(&word - drawn));
  }
  // Multiplying by an odd factor loses no bit.
  return {drawn[0] | 1, drawn[1] | 1, drawn[2]};
}

}  // namespace hyrecall
