#include "engine/lexical/on_device.hpp"

#include <algorithm>
#include <bit>

#include "core/error.hpp"
#include "core/hash.hpp"

namespace hyrecall {
namespace {

// The steps of a part of a tree, and the number of levels that it needs.
struct Emitted {
  std::vector<MatchStep> steps;
  std::size_t levels;
};

Emitted emit(MatchNode const& node) {
  using Kind = MatchStep::Kind;
  if (node.kind == MatchNode::Kind::kLeaf) return {{{Kind::kAnyLeaf, 1u << node.leaf}}, 1};
  bool const is_all = node.kind == MatchNode::Kind::kAll;
  std::uint32_t leaves = 0;
  std::vector<Emitted> parts;
  for (MatchNode const& child : node.children) {
    if (child.kind == MatchNode::Kind::kLeaf) {
      leaves |= 1u << child.leaf;
    } else {
      parts.push_back(emit(child));
    }
  }
  // Evaluate the part that needs most levels first. Then two equal parts need one level more, and a
  // tree needs at most the logarithm of its number of nodes.
  std::stable_sort(parts.begin(), parts.end(),
                   [](Emitted const& a, Emitted const& b) { return a.levels > b.levels; });
  if (leaves != 0 || parts.empty())  // without children nothing matches
    parts.push_back({{{is_all && leaves != 0 ? Kind::kAllLeaves : Kind::kAnyLeaf, leaves}}, 1});
  Emitted out = std::move(parts.front());
  for (std::size_t i = 1; i < parts.size(); ++i) {
    out.levels = std::max(out.levels, 1 + parts[i].levels);
    out.steps.insert(out.steps.end(), parts[i].steps.begin(), parts[i].steps.end());
    out.steps.push_back({is_all ? Kind::kAnd : Kind::kOr, 0});
  }
  return out;
}

}  // namespace

bool is_for_device(LexicalQuery const& query) {
  return query.is_bag || (query.leaves.size() <= kMostTreeLeaves && !query.has_excluded);
}

std::vector<MatchStep> match_steps_of(MatchNode const& root) {
  Emitted made = emit(root);
  require(made.levels <= 32, "a tree of at most 32 levels");
  return std::move(made.steps);
}

LexicalArm::LexicalArm(device::DeviceTable const& table, Snapshot const& snapshot,
                       BatchRequest const& request, LexicalRequest const& arm,
                       ResolvedScopes const& scopes, QueryGroups const& groups,
                       std::span<Bm25Query const> scorers, ArmPostings const& postings,
                       std::span<std::uint32_t const> only)
    : search_(table, snapshot, request, arm.floor, scopes, groups, only),
      n_segments_(snapshot.segments.size()),
      bm25_(arm.bm25) {
  std::vector<std::uint32_t>& group_of = search_.group_of();
  texts_.reserve(scorers.size());
  std::size_t n_leaves = 0;
  for (Bm25Query const& scorer : scorers) n_leaves += scorer.query().leaves.size();
  weights_.reserve(n_leaves);
  lists_.reserve(n_leaves * n_segments_);
  numbers_.assign(std::bit_ceil(2 * scorers.size() + 1), kNone32);
  for (std::size_t q = 0; q < scorers.size(); ++q) {
    LexicalQuery const& query = scorers[q].query();
    bool const is_asked =
        group_of[q] != kNone32 && is_for_device(query) && occurs(query.leaves.size(), q, postings);
    if (!is_asked) group_of[q] = kNone32;
    texts_.push_back(is_asked ? add(q, scorers[q], postings) : LexicalText{});
  }
  while (own_postings_.size() % 4 != 0) own_postings_.push_back(0);
  queries_ = {texts_,    weights_,     shifts_,      lists_,  own_lists_, own_postings_,
              own_runs_, own_escapes_, match_steps_, scales_, bm25_};
}

device::DenseSearch LexicalArm::batch() const {
  device::DenseSearch out = search_.batch();
  out.text = &queries_;
  return out;
}

bool LexicalArm::occurs(std::size_t n_leaves, std::size_t query,
                        ArmPostings const& postings) const {
  for (std::size_t s = 0; s < n_segments_ && n_leaves > 0; ++s) {
    for (LeafPostings const& one : postings.at(query, s)) {
      if (one.n_in_scope() > 0) return true;
    }
  }
  return false;
}

LexicalText LexicalArm::add(std::size_t number, Bm25Query const& scorer,
                            ArmPostings const& postings) {
  LexicalQuery const& query = scorer.query();
  LexicalText out{};
  out.leaf_begin = static_cast<std::uint32_t>(weights_.size());
  out.n_leaves = static_cast<std::uint32_t>(query.leaves.size());
  out.scale = number_of(scorer.scale());
  out.is_positive = query.is_bag && scorer.is_positive() ? 1 : 0;
  out.match_begin = static_cast<std::uint32_t>(match_steps_.size());
  if (!query.is_bag) {
    std::vector<MatchStep> const steps = match_steps_of(query.match);
    out.n_match_steps = static_cast<std::uint32_t>(steps.size());
    match_steps_.insert(match_steps_.end(), steps.begin(), steps.end());
  }
  for (std::size_t leaf = 0; leaf < query.leaves.size(); ++leaf) {
    weights_.push_back(scorer.weight(leaf));
    if (bm25_.variant == Bm25Variant::kPlus) shifts_.push_back(scorer.shift(leaf));
    bool const is_term = query.leaves[leaf].kind == Leaf::Kind::kTerm;
    for (std::size_t s = 0; s < n_segments_; ++s)
      lists_.push_back(list_of(postings.at(number, s)[leaf], is_term));
  }
  return out;
}

// The whole list of a term, for any scope: the device leaves out rows outside the scope.
std::uint32_t LexicalArm::list_of(LeafPostings const& leaf, bool is_term) {
  if (leaf.n_in_scope() == 0) return kNone32;
  if (is_term) {
    require(leaf.term < kFirstOwnList, "fewer than 2^31 terms");
    return leaf.term;
  }
  PostingList const& list = leaf.list;
  require(own_lists_.size() < kFirstOwnList - 1 && own_postings_.size() + list.size < kFirstOwnList,
          "fewer than 2^31 postings of phrases and prefixes");
  own_lists_.push_back({static_cast<std::uint32_t>(own_postings_.size()), list.size,
                        static_cast<std::uint32_t>(own_runs_.size()),
                        static_cast<std::uint32_t>(list.runs.size()),
                        static_cast<std::uint32_t>(own_escapes_.size()),
                        static_cast<std::uint32_t>(list.escapes.size())});
  for (std::uint32_t i = 0; i < list.size; ++i) own_postings_.push_back(list.bits(i));
  own_runs_.insert(own_runs_.end(), list.runs.begin(), list.runs.end());
  own_escapes_.insert(own_escapes_.end(), list.escapes.begin(), list.escapes.end());
  return kFirstOwnList + static_cast<std::uint32_t>(own_lists_.size() - 1);
}

std::uint32_t LexicalArm::number_of(LengthScale scale) {
  auto const bits = [](double value) { return std::bit_cast<std::uint64_t>(value); };
  std::uint64_t const hash = hash_number(bits(scale.mean), bits(scale.b));
  for (std::size_t at = hash % numbers_.size();; at = (at + 1) % numbers_.size()) {
    if (numbers_[at] == kNone32) {
      numbers_[at] = static_cast<std::uint32_t>(scales_.size());
      scales_.push_back(scale);
    }
    LengthScale const& known = scales_[numbers_[at]];
    if (bits(known.mean) == bits(scale.mean) && bits(known.b) == bits(scale.b)) return numbers_[at];
  }
}

}  // namespace hyrecall
