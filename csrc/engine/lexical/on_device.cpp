#include "engine/lexical/on_device.hpp"

#include <algorithm>

#include "core/error.hpp"

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
  return query.is_bag || query.leaves.size() <= kMostTreeLeaves;
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
      texts_(snapshot, arm.bm25, scorers, postings, search_.group_of()),
      queries_(texts_.queries()) {}

device::DenseSearch LexicalArm::batch() const {
  device::DenseSearch out = search_.batch();
  out.text = &queries_;
  return out;
}

}  // namespace hyrecall
