// Words that a prefix may become: a stemmer tells which stems they have, and how these begin.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace hyrecall::text {

// Adds the prefix, and the prefix with each rest of an ending (of the languages with a stemmer)
// that it may have begun: "chargi" becomes "charging" and others.
void complete_word(std::string_view prefix, std::vector<std::string>& out);

// Letters that no stemmer removes from the end of a word. Behind a prefix they show what the
// stemmer makes of it within a word: the Spanish stem of "ráqq" is "raqq". Some stemmers fold an
// accent only before consonants (French), others remove a beginning only from a word of several
// syllables (Indonesian).
inline constexpr std::string_view kTails[] = {"qq", "aqaq"};

}  // namespace hyrecall::text
