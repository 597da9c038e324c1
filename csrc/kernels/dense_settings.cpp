#include "kernels/dense_settings.hpp"

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/error.hpp"

namespace hyrecall::device {

std::string setting(char const* name, std::initializer_list<char const*> values) {
  char const* const text = std::getenv(name);
  if (text == nullptr) return {};
  std::string names;
  for (char const* const value : values) {
    if (std::strcmp(text, value) == 0) return text;
    names += (names.empty() ? "" : " or ") + std::string(value);
  }
  throw Error(ErrorCode::kOption, name, "expected " + names + ", got " + text);
}

std::optional<DenseTuning> forced_tuning() {
  char const* const text = std::getenv("HYRECALL_DENSE_TUNING");
  if (text == nullptr) return std::nullopt;
  DenseTuning tuning{};
  int n_read = 0;
  int const n = std::sscanf(text, "%u,%u,%u%n", &tuning.capacity, &tuning.seed_tiles,
                            &tuning.growth, &n_read);
  if (n != 3 || text[n_read] != '\0' || tuning.capacity == 0 || tuning.seed_tiles == 0 ||
      tuning.growth < 2 || tuning.growth > 32) {
    throw Error(ErrorCode::kOption, "HYRECALL_DENSE_TUNING",
                "expected capacity >= 1, seed tiles >= 1 and growth of 2 to 32, as in 64,1,2, "
                "got " +
                    std::string(text));
  }
  return tuning;
}

}  // namespace hyrecall::device
