// A typed text query, as it was asked.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hyrecall {

// Why a text is not searched: it asks for too much. One that is cut is searched, but a part of it
// stands for more terms than it may, and finds the most frequent ones alone.
enum class Refusal : std::uint8_t { kNone, kTerms, kPhrase, kCut };

inline bool is_refused(Refusal why) {
  return why == Refusal::kTerms || why == Refusal::kPhrase;
}

// The terms for which a word stands, with the live documents of the scope that hold each.
using Expansion = std::map<std::string, std::int64_t>;
using Expansions = std::map<std::size_t, Expansion>;  // by leaf

// As the caller wrote it; never parsed from text.
struct TextQuery {
  enum class Kind : std::uint8_t { kText, kPhrase, kPrefix, kFuzzy, kAll, kAny, kBoost, kNot };
  // A term of the index, as it stands there, beside the words of a text.
  struct AddedTerm {
    std::string term;
    double boost;  // in [2^-20, 2^20]
  };
  Kind kind = Kind::kText;
  std::string text;         // of kText, kPhrase, kPrefix, kFuzzy
  std::uint32_t slop = 0;   // of kPhrase, kPrefix
  std::uint32_t edits = 0;  // of kFuzzy
  double boost = 1.0;       // of kBoost
  std::vector<TextQuery> children;
  std::vector<AddedTerm> added{};  // of kText, distinct
  int nesting = 0;  // levels of queries below this one, as the functions below count them

  static TextQuery of_text(std::string text);
  static TextQuery phrase(std::string text, std::uint32_t slop);
  static TextQuery prefix(std::string text, std::uint32_t slop);
  static TextQuery fuzzy(std::string text, std::uint32_t edits);
  // Each throws where the queries are nested more than 32 deep.
  static TextQuery boosted(double factor, TextQuery query);
  static TextQuery all(std::vector<TextQuery> queries);
  static TextQuery any(std::vector<TextQuery> queries);
  // Of a group, beside parts that match: documents that match the query do not match the group.
  static TextQuery excluded(TextQuery query);
};

}  // namespace hyrecall
