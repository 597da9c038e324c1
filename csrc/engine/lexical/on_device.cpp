#include "engine/lexical/on_device.hpp"

#include <algorithm>

#include "core/error.hpp"
#include "engine/scope/on_device.hpp"

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

CandidateLists scan_lexical_on_device(device::DeviceTable const& table, Snapshot const& snapshot,
                                      BatchRequest const& request, LexicalRequest const& arm,
                                      ResolvedScopes const& scopes, QueryGroups const& groups,
                                      std::span<Bm25Query const> scorers,
                                      ArmPostings const& postings,
                                      std::optional<DeviceTexts>& texts, device::KeptLists* kept) {
  if (snapshot.n_docs() == 0) return CandidateLists(request.n_queries);
  DeviceSearch search(table, snapshot, request, arm.floor, scopes, groups);
  search.keep_in(kept);
  texts.emplace(snapshot, arm.bm25, scorers, postings, search.group_of());
  device::TextQueries const text = texts->queries();
  return search.run([&](device::DenseSearch& batch) { batch.text = &text; });
}

}  // namespace hyrecall
