#include "engine/lexical/query.hpp"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>
#include <unordered_map>

#include "core/error.hpp"
#include "core/hash.hpp"
#include "core/parallel.hpp"
#include "text/endings.hpp"

namespace hyrecall {
namespace {

using Kind = TextQuery::Kind;

// Nobody asks for more, and each leaf costs memory in every segment.
constexpr std::uint32_t kMaxLeaves = 1 << 16;

struct Token {
  std::string const* term;
  std::uint32_t position;
};

// Thrown where a text asks for too much.
struct RefusedText {
  Refusal why;
};

constexpr std::size_t kQueriesAtOnce = 128;  // some 100 us; waking a thread takes 20

// The texts of some queries, analysed together.
class Texts {
 public:
  // Returns the number of the query's first text; its other texts follow.
  std::size_t collect(TextQuery const& query) {
    std::size_t const first = texts_.size();
    bool const is_open = query.kind == Kind::kPrefix || query.kind == Kind::kFuzzy;
    if (is_open) open_.push_back({texts_.size(), &query});
    if (query.kind == Kind::kText || query.kind == Kind::kPhrase || is_open)
      texts_.push_back(query.text);
    for (TextQuery const& child : query.children) collect(child);
    return first;
  }
  void analyze(text::Analyzer const& analyzer) {
    batch_ = analyzer.analyze(texts_, text::Role::kQuery);
    if (!open_.empty()) read_open(analyzer);
  }

  // The leaf of a prefix or fuzzy word: the last word of its text stands for several, and those
  // before it come right before such a word. None: no token.
  std::optional<Leaf> const& open_leaf(std::size_t text) const {
    auto const at = std::partition_point(open_.begin(), open_.end(),
                                         [text](Open const& one) { return one.text < text; });
    return leaves_[static_cast<std::size_t>(at - open_.begin())];
  }
  // The terms of the text's tokens, sorted by their UTF-8 bytes; valid until the next call.
  std::span<std::string const* const> sorted_terms_of(std::size_t text) {
    sorted_.clear();
    for (std::uint64_t t = batch_.offsets[text]; t < batch_.offsets[text + 1]; ++t)
      sorted_.push_back(&batch_.terms[batch_.term_ids[t]]);
    std::sort(sorted_.begin(), sorted_.end(), [](auto* a, auto* b) { return *a < *b; });
    return sorted_;
  }
  std::vector<Token> tokens_of(std::size_t text) const {
    std::vector<Token> out;
    for (std::uint64_t t = batch_.offsets[text]; t < batch_.offsets[text + 1]; ++t)
      out.push_back({&batch_.terms[batch_.term_ids[t]], batch_.positions[t]});
    return out;
  }

 private:
  struct Open {
    std::size_t text;
    TextQuery const* query;
  };

  void read_open(text::Analyzer const& analyzer) {
    std::vector<std::string_view> typed;
    for (Open const& one : open_) typed.push_back(texts_[one.text]);
    text::TokenBatch const words = analyzer.unfinished().analyze(typed, text::Role::kQuery);
    for (std::size_t i = 0; i < open_.size(); ++i) leaves_.push_back(read_one(open_[i], words, i));
    if (analyzer.stems()) add_stems(analyzer);
  }

  // words: the texts with nothing removed or stemmed.
  std::optional<Leaf> read_one(Open const& open, text::TokenBatch const& words,
                               std::size_t number) const {
    std::size_t const text = open.text;
    std::uint64_t const end = words.offsets[number + 1];
    std::uint64_t last = end - 1;  // the token that is not finished
    text::TokenBatch::LastWord const& raw = words.last_words[number];
    if (end == words.offsets[number] || raw.first_token == end) return std::nullopt;
    // A compound stands where its first part stands, and its parts need no look.
    if (raw.first_token < last &&
        words.positions[raw.first_token] == words.positions[raw.first_token + 1])
      last = raw.first_token;
    std::uint32_t const part = words.positions[last] - raw.position;
    text::TokenBatch::LastWord const& own = batch_.last_words[text];
    bool const is_prefix = open.query->kind == Kind::kPrefix;
    Leaf leaf{is_prefix ? Leaf::Kind::kPrefix : Leaf::Kind::kFuzzy, {}, {}, 0, 0.0};
    leaf.edits = open.query->edits;
    std::uint32_t first = own.position + part;
    for (std::uint64_t t = batch_.offsets[text]; t < batch_.offsets[text + 1]; ++t) {
      if (t >= own.first_token && batch_.positions[t] >= own.position + part) break;
      if (leaf.terms.empty()) first = batch_.positions[t];
      leaf.terms.push_back(batch_.terms[batch_.term_ids[t]]);
      leaf.offsets.push_back(batch_.positions[t] - first);
    }
    leaf.terms.push_back(words.terms[words.term_ids[last]]);
    leaf.offsets.push_back(own.position + part - first);
    if (leaf.terms.size() > 1) leaf.slop = open.query->slop;
    return leaf;
  }

  // The stem of a word that begins with the prefix may not begin so: "charging" is "charg", and
  // "chargi" is a prefix of the one alone.
  void add_stems(text::Analyzer const& analyzer) {
    std::vector<std::string> words;
    auto const is_prefix = [](std::optional<Leaf> const& leaf) {
      return leaf && leaf->kind == Leaf::Kind::kPrefix;
    };
    for (auto const& leaf : leaves_) {
      if (!is_prefix(leaf)) continue;
      for (std::string_view const tail : text::kTails)
        words.push_back(std::string(leaf->terms.back()).append(tail));
    }
    std::size_t const n_tailed = words.size();
    std::vector<std::size_t> ends;  // [leaves_]
    for (auto const& leaf : leaves_) {
      if (is_prefix(leaf)) {
        text::complete_word(leaf->terms.back(), words);
      } else if (leaf) {
        words.emplace_back(leaf->terms.back());
      }
      ends.push_back(words.size());
    }
    std::vector<std::string_view> const texts(words.begin(), words.end());
    text::TokenBatch const stems = analyzer.analyze(texts, text::Role::kQuery);
    auto const stem_of = [&](std::size_t word) -> std::string_view {
      if (stems.offsets[word + 1] - stems.offsets[word] != 1) return {};
      return stems.terms[stems.term_ids[stems.offsets[word]]];
    };
    std::size_t tailed = 0, word = n_tailed;
    for (std::size_t i = 0; i < leaves_.size(); ++i) {
      if (!leaves_[i]) continue;
      Leaf& leaf = *leaves_[i];
      std::string_view const prefix = leaf.terms.back();
      if (!is_prefix(leaf)) {
        if (std::string_view const stem = stem_of(word++); !stem.empty() && stem != prefix)
          leaf.stems.emplace_back(stem);
        continue;
      }
      for (std::string_view const tail : text::kTails) {
        std::string_view stem = stem_of(tailed++);
        if (!stem.ends_with(tail)) continue;
        stem.remove_suffix(tail.size());
        if (begins_enough(stem, prefix)) leaf.beginnings.emplace_back(stem);
      }
      for (; word < ends[i]; ++word) {
        std::string_view const stem = stem_of(word);
        if (!stem.empty() && !stem.starts_with(prefix)) leaf.stems.emplace_back(stem);
      }
      std::sort(leaf.stems.begin(), leaf.stems.end());
      leaf.stems.erase(std::unique(leaf.stems.begin(), leaf.stems.end()), leaf.stems.end());
    }
  }

  // A stemmer that removes the beginning of a word may leave a letter, with which far too many
  // terms begin.
  static bool begins_enough(std::string_view stem, std::string_view prefix) {
    std::size_t const n = n_characters(stem);
    return n > 0 && (n >= 2 || n + 1 >= n_characters(prefix)) && !stem.starts_with(prefix);
  }
  static std::size_t n_characters(std::string_view text) {
    return static_cast<std::size_t>(
        std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
  }

  std::vector<std::string_view> texts_;
  std::vector<Open> open_;                   // prefixes and fuzzy words, rising by text
  std::vector<std::optional<Leaf>> leaves_;  // [open_]
  text::TokenBatch batch_;
  std::vector<std::string const*> sorted_;
};

// Compiles a query that is one text, as most are, without Compiler's tables.
LexicalQuery compile_words(Texts& texts, std::size_t text) {
  // Equal terms have the same address.
  std::span<std::string const* const> const terms = texts.sorted_terms_of(text);
  std::size_t n_distinct = 0;
  for (std::size_t i = 0; i < terms.size(); ++i)
    n_distinct += i == 0 || terms[i] != terms[i - 1] ? 1 : 0;
  if (n_distinct > kMaxLeaves) throw RefusedText{Refusal::kTerms};
  LexicalQuery out;
  out.leaves.reserve(n_distinct);
  for (std::size_t i = 0; i < terms.size(); ++i) {
    if (i > 0 && terms[i] == terms[i - 1]) {
      out.leaves.back().multiplicity += 1.0;
      continue;
    }
    Leaf& leaf = out.leaves.emplace_back();
    leaf.terms.push_back(*terms[i]);
    leaf.multiplicity = 1.0;
  }
  return out;
}

class Compiler {
 public:
  // first: the number of the query's first text. place: the query's, for messages.
  Compiler(Texts const& texts, std::size_t first, std::string place)
      : texts_(texts), next_(first), place_(std::move(place)) {}

  LexicalQuery compile(TextQuery const& query) {
    LexicalQuery out;
    out.match = {MatchNode::Kind::kAny, 0, {}};
    add(query, 1.0, out.match);
    finish(out);
    return out;
  }

 private:
  // Adds the query's nodes to a parent that is kAll or kAny. All words of a str under All are
  // required.
  void add(TextQuery const& query, double boost, MatchNode& parent) {
    switch (query.kind) {
      case Kind::kText:
        for (Token const& token : texts_.tokens_of(next_++))
          add_leaf({Leaf::Kind::kTerm, {*token.term}, {0}, 0, 0.0}, boost, parent);
        for (TextQuery::AddedTerm const& term : query.added)
          add_leaf({Leaf::Kind::kTerm, {term.term}, {0}, 0, 0.0}, term.boost, parent);
        break;
      case Kind::kPhrase:
        add_phrase(query, boost, parent);
        break;
      case Kind::kPrefix:
      case Kind::kFuzzy:
        if (auto const& leaf = texts_.open_leaf(next_++)) {
          require_phrase(leaf->terms.size());
          add_leaf(*leaf, boost, parent);
        }
        break;
      case Kind::kBoost:
        boost *= query.boost;
        // Far outside this range a weight does not fit float32: scores would be 0 or infinity.
        if (!(boost >= 0x1p-20 && boost <= 0x1p20)) {
          throw Error(ErrorCode::kOption, place_,
                      "expected nested boosts that multiply to [2^-20, 2^20], got " +
                          std::to_string(boost));
        }
        for (TextQuery const& child : query.children) add(child, boost, parent);
        break;
      case Kind::kAll:
      case Kind::kAny: {
        MatchNode node{
            query.kind == Kind::kAll ? MatchNode::Kind::kAll : MatchNode::Kind::kAny, 0, {}};
        for (TextQuery const& child : query.children) add(child, boost, node);
        if (!node.children.empty()) {
          parent.children.push_back(std::move(node));
        } else if (parent.kind == MatchNode::Kind::kAll) {  // it asks for nothing
          std::move(node.excluded.begin(), node.excluded.end(),
                    std::back_inserter(parent.excluded));
        }
        break;
      }
      case Kind::kNot: {
        MatchNode node{MatchNode::Kind::kAny, 0, {}};
        for (TextQuery const& child : query.children) add(child, 0.0, node);
        if (!node.children.empty()) parent.excluded.push_back(std::move(node));
        break;
      }
    }
  }

  void add_phrase(TextQuery const& query, double boost, MatchNode& parent) {
    std::vector<Token> const tokens = texts_.tokens_of(next_++);
    if (tokens.empty()) return;
    require_phrase(tokens.size());
    Leaf leaf{Leaf::Kind::kPhrase, {}, {}, query.slop, 0.0};
    for (Token const& token : tokens) {
      leaf.terms.push_back(*token.term);
      leaf.offsets.push_back(token.position - tokens.front().position);
    }
    if (tokens.size() == 1) leaf = {Leaf::Kind::kTerm, std::move(leaf.terms), {0}, 0, 0.0};
    add_leaf(std::move(leaf), boost, parent);
  }

  static void require_phrase(std::size_t n_tokens) {
    if (n_tokens > kMaxPhraseTokens) throw RefusedText{Refusal::kPhrase};
  }

  void add_leaf(Leaf leaf, double boost, MatchNode& parent) {
    std::uint32_t const index = number_of(std::move(leaf));
    if (boost > 0.0) leaves_[index].boosts[boost] += 1;
    parent.children.push_back({MatchNode::Kind::kLeaf, index, {}});
  }

  // The leaf's number; equal leaves share one. Uses hashes, since a query may have many leaves.
  std::uint32_t number_of(Leaf leaf) {
    std::uint64_t hash = mix64(
        (leaf.edits * std::uint64_t{4} + static_cast<std::uint64_t>(leaf.kind)) << 32 | leaf.slop);
    for (std::size_t i = 0; i < leaf.terms.size(); ++i)
      hash = hash_bytes(leaf.terms[i], hash ^ leaf.offsets[i]);
    auto const [first, last] = numbers_.equal_range(hash);
    for (auto at = first; at != last; ++at) {
      if (same_leaf(leaves_[at->second].leaf, leaf)) return at->second;
    }
    auto const number = static_cast<std::uint32_t>(leaves_.size());
    if (number == kMaxLeaves) throw RefusedText{Refusal::kTerms};
    numbers_.emplace(hash, number);
    leaves_.push_back({std::move(leaf), {}});
    return number;
  }

  void finish(LexicalQuery& out) {
    if (out.match.children.empty()) {  // nothing that matches
      out.match = {};
      return;
    }
    std::vector<std::uint32_t> order(leaves_.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) order[i] = i;
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
      Leaf const& x = leaves_[a].leaf;
      Leaf const& y = leaves_[b].leaf;
      return std::tie(x.terms, x.kind, x.offsets, x.slop, x.edits) <
             std::tie(y.terms, y.kind, y.offsets, y.slop, y.edits);
    });
    std::vector<std::uint32_t> place(order.size());
    for (std::uint32_t i = 0; i < order.size(); ++i) {
      place[order[i]] = i;
      NumberedLeaf& entry = leaves_[order[i]];
      for (auto const& [boost, count] : entry.boosts) entry.leaf.multiplicity += boost * count;
      out.leaves.push_back(std::move(entry.leaf));
    }
    renumber(out.match, place);
    // A leaf without weight is one of a kNot.
    out.is_bag = std::all_of(out.match.children.begin(), out.match.children.end(),
                             [](MatchNode const& n) { return n.kind == MatchNode::Kind::kLeaf; }) &&
                 std::all_of(out.leaves.begin(), out.leaves.end(),
                             [](Leaf const& leaf) { return leaf.multiplicity > 0.0; });
    out.has_excluded = out.match.has_excluded();
    out.is_bag = out.is_bag && !out.has_excluded;
    if (out.is_bag) out.match = {};
  }

  static void renumber(MatchNode& node, std::vector<std::uint32_t> const& place) {
    if (node.kind == MatchNode::Kind::kLeaf) node.leaf = place[node.leaf];
    for (MatchNode& child : node.children) renumber(child, place);
    for (MatchNode& one : node.excluded) renumber(one, place);
  }

  struct NumberedLeaf {
    Leaf leaf;
    std::map<double, double> boosts;  // boost -> occurrences, summed by rising boost
  };

  Texts const& texts_;
  std::size_t next_;  // text
  std::string const place_;
  std::vector<NumberedLeaf> leaves_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> numbers_;  // hash -> leaf
};

}  // namespace

std::string Leaf::label() const {
  if (kind == Kind::kTerm) return terms.front();
  bool const is_prefix = kind == Kind::kPrefix;
  if (is_prefix && terms.size() == 1) return terms.front() + "*";
  if (expands()) return terms.front() + "~" + std::to_string(edits);
  std::string out = "\"";
  for (std::size_t i = 0; i < terms.size(); ++i) out += (i > 0 ? " " : "") + terms[i];
  if (kind == Kind::kFuzzy) out += "~" + std::to_string(edits);
  return out + (is_prefix ? "*\"" : "\"") + (slop > 0 ? "~" + std::to_string(slop) : "");
}

std::vector<std::optional<LexicalQuery>> analyze_queries(
    std::span<std::optional<TextQuery> const> queries, text::Analyzer const& analyzer,
    std::size_t first_query, int threads, std::vector<Refusal>& refused) {
  // If the analyzer calls Python, analyse all texts together: its token functions then run once per
  // distinct token of the batch.
  std::size_t const at_once =
      analyzer.calls_back() ? std::max<std::size_t>(queries.size(), 1) : kQueriesAtOnce;
  std::vector<std::optional<LexicalQuery>> out(queries.size());
  refused.assign(queries.size(), Refusal::kNone);
  parallel_for((queries.size() + at_once - 1) / at_once, threads, [&](int, std::size_t part) {
    std::size_t const begin = part * at_once;
    std::size_t const end = std::min(queries.size(), begin + at_once);
    Texts texts;
    std::vector<std::size_t> firsts(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      if (queries[i]) firsts[i - begin] = texts.collect(*queries[i]);
    }
    texts.analyze(analyzer);
    for (std::size_t i = begin; i < end; ++i) {
      if (!queries[i]) continue;
      std::size_t const first = firsts[i - begin];
      try {
        if (queries[i]->kind == Kind::kText && queries[i]->added.empty()) {
          out[i] = compile_words(texts, first);
        } else {
          Compiler compiler(texts, first, "text[" + std::to_string(first_query + i) + "]");
          out[i] = compiler.compile(*queries[i]);
        }
      } catch (RefusedText const& one) {
        refused[i] = one.why;
      }
    }
  });
  return out;
}

}  // namespace hyrecall
