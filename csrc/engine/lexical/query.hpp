// An analysed text query: distinct leaves, which give the score, and a tree, which decides matches.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/small_vector.hpp"
#include "engine/request/text_query.hpp"
#include "text/analyzer.hpp"

namespace hyrecall {

// A term, or a phrase, prefix or fuzzy word that counts as a term: its term frequency is the number
// of occurrences, its doc frequency the number of documents with one.
struct Leaf {
  enum class Kind : std::uint8_t { kTerm, kPhrase, kPrefix, kFuzzy };
  Kind kind = Kind::kTerm;
  // One, or those of a phrase in order. The last of a prefix stands for every term that begins so,
  // the last of a fuzzy word for every term that is near enough.
  SmallVector<std::string, 1> terms;
  std::vector<std::uint32_t> offsets;  // positions, the first is 0
  std::uint32_t slop = 0;
  double multiplicity = 0.0;  // boost x occurrences in the query, summed
  std::uint32_t edits = 0;    // of a fuzzy word
  // Of a prefix: the stems of words that begin so, where the stems do not. Of a fuzzy word: its
  // stem, which stands for the terms near it too.
  std::vector<std::string> stems{};
  // Of a prefix: how else the stems of such words begin ("ra" of "rá").
  std::vector<std::string> beginnings{};
  // If it stands for more terms than it may: those that it finds, the most frequent ones.
  std::optional<std::vector<std::string>> chosen{};

  // Whether one word stands for several terms.
  bool expands() const { return kind >= Kind::kPrefix && terms.size() == 1; }
  friend bool same_leaf(Leaf const& a, Leaf const& b) {
    return a.kind == b.kind && a.terms == b.terms && a.offsets == b.offsets && a.slop == b.slop &&
           a.edits == b.edits;
  }
  std::string label() const;  // its name in explain()
};

struct MatchNode {
  enum class Kind : std::uint8_t { kLeaf, kAll, kAny };
  Kind kind = Kind::kAny;
  std::uint32_t leaf = 0;
  std::vector<MatchNode> children;
  std::vector<MatchNode> excluded{};  // of a group: what matches one of them does not match

  // present(leaf) says whether the document holds it. excludes: false leaves out what is excluded.
  template <typename F>
  bool matches(F&& present, bool excludes = true) const {
    if (kind == Kind::kLeaf) return present(leaf);
    bool const is_all = kind == Kind::kAll;
    bool const is_found =
        !children.empty() &&
        std::any_of(children.begin(), children.end(), [&](MatchNode const& child) {
          return child.matches(present, excludes) != is_all;
        }) != is_all;
    return is_found && !(excludes && std::any_of(excluded.begin(), excluded.end(),
                                                 [&](auto& one) { return one.matches(present); }));
  }
  bool has_excluded() const {
    return !excluded.empty() || std::any_of(children.begin(), children.end(),
                                            [](auto& child) { return child.has_excluded(); });
  }
};

struct LexicalQuery {
  std::vector<Leaf>
      leaves;  // distinct, by the UTF-8 bytes of their terms: the order in which scores are summed
  MatchNode match;            // set unless is_bag
  bool is_bag = true;         // any leaf matches: no tree to evaluate
  bool has_excluded = false;  // some documents do not match because of a kNot alone

  // present(leaf) says whether the document holds it.
  template <typename F>
  bool matches(F&& present) const {
    if (!is_bag) return match.matches(present);
    for (std::uint32_t leaf = 0; leaf < leaves.size(); ++leaf)
      if (present(leaf)) return true;
    return false;
  }
};

// Nobody types a longer phrase, and each token costs a read of every document with the rarest term.
inline constexpr std::size_t kMaxPhraseTokens = 4096;

// A missing query stays missing; a text without an indexable token becomes a query without leaves.
// refused: why a text asks for too much, by query; such a query is missing. first_query: the number
// of the first query in its batch, for messages.
std::vector<std::optional<LexicalQuery>> analyze_queries(
    std::span<std::optional<TextQuery> const> queries, text::Analyzer const& analyzer,
    std::size_t first_query, int threads, std::vector<Refusal>& refused);

}  // namespace hyrecall
