#include "engine/lexical/marks.hpp"

#include <algorithm>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "engine/lexical/fuzzy_terms.hpp"

namespace hyrecall {
namespace {

// The places of a term in a text, by rising position.
using Places = std::vector<std::uint32_t>;

class Finder {
 public:
  explicit Finder(text::TokenBatch const& words) : words_(words), places_(words.terms.size()) {
    for (std::uint32_t at = 0; at < words.term_ids.size(); ++at)
      places_[words.term_ids[at]].push_back(at);
    for (std::uint32_t term = 0; term < words.terms.size(); ++term)
      numbers_.emplace(words.terms[term], term);
  }

  // The tokens of a leaf; some may come twice.
  Places tokens_of(Leaf const& leaf) const {
    switch (leaf.kind) {
      case Leaf::Kind::kTerm:
        return places_of(leaf.terms.front());
      case Leaf::Kind::kPhrase:
      case Leaf::Kind::kPrefix:
      case Leaf::Kind::kFuzzy:
        break;
    }
    std::vector<Places> parts;
    for (std::size_t i = 0; i < leaf.terms.size(); ++i) {
      bool const is_open = leaf.kind != Leaf::Kind::kPhrase && i + 1 == leaf.terms.size();
      parts.push_back(is_open ? meant_by(leaf) : places_of(leaf.terms[i]));
      if (parts.back().empty()) return {};
    }
    return parts.size() == 1 ? parts.front() : in_place(leaf, parts);
  }

 private:
  Places places_of(std::string_view term) const {
    auto const found = numbers_.find(term);
    return found == numbers_.end() ? Places{} : places_[found->second];
  }

  // The tokens that the last word of a prefix or fuzzy word stands for.
  Places meant_by(Leaf const& leaf) const {
    Places out;
    for (std::uint32_t term = 0; term < words_.terms.size(); ++term) {
      if (is_meant(words_.terms[term], leaf))
        out.insert(out.end(), places_[term].begin(), places_[term].end());
    }
    std::sort(out.begin(), out.end());
    return out;
  }

  static bool is_meant(std::string_view word, Leaf const& leaf) {
    if (leaf.kind == Leaf::Kind::kFuzzy) {
      auto const is_near = [&](std::string const& meant) {
        return is_within(word, meant, leaf.edits);
      };
      return is_near(leaf.terms.back()) ||
             std::any_of(leaf.stems.begin(), leaf.stems.end(), is_near);
    }
    auto const begins = [&](std::string const& beginning) { return word.starts_with(beginning); };
    return begins(leaf.terms.back()) ||
           std::any_of(leaf.beginnings.begin(), leaf.beginnings.end(), begins) ||
           std::binary_search(leaf.stems.begin(), leaf.stems.end(), word);
  }

  // The tokens that stand together: where their displacements from the phrase's places differ by at
  // most its slop, and each of its words has one.
  Places in_place(Leaf const& leaf, std::vector<Places> const& parts) const {
    struct Candidate {
      std::int64_t displacement;
      std::uint32_t part, token;
    };
    std::vector<Candidate> all;
    for (std::uint32_t part = 0; part < parts.size(); ++part)
      for (std::uint32_t const token : parts[part])
        all.push_back({std::int64_t{words_.positions[token]} - leaf.offsets[part], part, token});
    std::sort(all.begin(), all.end(),
              [](auto const& a, auto const& b) { return a.displacement < b.displacement; });
    std::vector<std::uint32_t> counts(parts.size());
    std::size_t n_missing = parts.size();
    std::size_t begin = 0, end = 0, taken = 0;
    Places out;
    while (begin < all.size()) {  // each window that begins at a displacement
      std::int64_t const first = all[begin].displacement;
      for (; end < all.size() && all[end].displacement <= first + leaf.slop; ++end)
        n_missing -= counts[all[end].part]++ == 0 ? 1 : 0;
      if (n_missing == 0)
        for (taken = std::max(taken, begin); taken < end; ++taken) out.push_back(all[taken].token);
      for (; begin < end && all[begin].displacement == first; ++begin)
        n_missing += --counts[all[begin].part] == 0 ? 1 : 0;
    }
    return out;
  }

  text::TokenBatch const& words_;
  std::vector<Places> places_;  // [words_.terms]
  std::unordered_map<std::string_view, std::uint32_t> numbers_;
};

}  // namespace

TextQuery as_asked(TextQuery query) {
  query.added.clear();
  for (TextQuery& child : query.children) child = as_asked(std::move(child));
  return query;
}

std::vector<Mark> find_marks(LexicalQuery const& query, text::TokenBatch const& words) {
  Finder const finder(words);
  std::vector<Mark> out;
  for (std::uint32_t leaf = 0; leaf < query.leaves.size(); ++leaf) {
    if (query.leaves[leaf].multiplicity == 0.0) continue;  // it adds nothing to any score
    for (std::uint32_t const token : finder.tokens_of(query.leaves[leaf]))
      out.push_back({words.spans[token], leaf});
  }
  std::sort(out.begin(), out.end(), [](Mark const& a, Mark const& b) {
    return a.span.begin != b.span.begin ? a.span.begin < b.span.begin : a.span.end < b.span.end;
  });
  return out;
}

}  // namespace hyrecall
