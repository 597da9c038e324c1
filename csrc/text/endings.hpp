// Words that a prefix may become: a stemmer tells which stems they have.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hyrecall::text {

// Adds the prefix, and the prefix with each rest of an ending (of the languages with a stemmer)
// that it may have begun: "chargi" becomes "charging" and others.
void complete_word(std::string_view prefix, std::vector<std::string>& out);

}  // namespace hyrecall::text
