// A typed text query, as it was asked.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace hyrecall {

// As the caller wrote it; never parsed from text.
struct TextQuery {
  enum class Kind : std::uint8_t { kText, kPhrase, kPrefix, kAll, kAny, kBoost };
  Kind kind = Kind::kText;
  std::string text;        // of kText, kPhrase, kPrefix
  std::uint32_t slop = 0;  // of kPhrase
  double boost = 1.0;      // of kBoost
  std::vector<TextQuery> children;
};

}  // namespace hyrecall
