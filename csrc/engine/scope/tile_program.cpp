#include "engine/scope/tile_program.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace hyrecall {
namespace {

using Node = BoundFilter::Node;

// Of a wide node so many children wait as levels; then they are joined to one and it goes on. Small
// enough for the word (see levels_of), large enough that most nodes are joined once.
constexpr std::size_t kJoin = 8;

// How many levels lie below child i of a node when its turn comes.
std::size_t waiting_at(std::size_t i) {
  return i < kJoin ? i : 1 + (i - kJoin) % (kJoin - 1);
}

// A node whose children come in another order: those that need most levels first, while few wait.
struct Plan {
  Node const* node;
  std::size_t n_levels;
  std::vector<Plan> children;
};

// A plan of n levels has a child that needs n - p of them while p <= 7 wait, and p children before
// it that need as many: at least p + 1 times the tests of a plan of n - p levels. (p + 1)^(1/p) is
// least at p = 7, 1.346: beyond 64 levels there are more than 1.346^64 = 1.8 * 10^8 tests.
std::size_t levels_of(std::vector<Plan> const& children) {
  std::size_t n_levels = 1;
  for (std::size_t i = 0; i < children.size(); ++i)
    n_levels = std::max(n_levels, waiting_at(i) + children[i].n_levels);
  return n_levels;
}

Plan plan_of(Node const& node) {
  Plan plan{&node, 1, {}};
  plan.children.reserve(node.children.size());
  for (Node const& child : node.children) plan.children.push_back(plan_of(child));
  std::stable_sort(plan.children.begin(), plan.children.end(),
                   [](Plan const& a, Plan const& b) { return a.n_levels > b.n_levels; });
  plan.n_levels = levels_of(plan.children);
  return plan;
}

TileTestKind kind_of(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::kBetween:
      return TileTestKind::kBetween;
    case Node::Kind::kAnyOf:
      return TileTestKind::kAnyOf;
    case Node::Kind::kIsNull:
      return TileTestKind::kIsNull;
    case Node::Kind::kAnd:
      return TileTestKind::kAnd;
    case Node::Kind::kOr:
      return TileTestKind::kOr;
    case Node::Kind::kNot:
      break;
  }
  return TileTestKind::kNot;
}

void write(Plan const& plan, TileProgram& out) {
  Node const& node = *plan.node;
  TileTest test;
  test.kind = kind_of(node.kind);
  if (node.kind == Node::Kind::kAnd || node.kind == Node::Kind::kOr) {
    test.n = 0;
    for (Plan const& child : plan.children) {
      if (test.n == kJoin) {
        out.tests.push_back(test);
        test.n = 1;
      }
      write(child, out);
      test.n += 1;
    }
    if (test.n != 1) out.tests.push_back(test);  // a lone child is the whole
    return;
  }
  for (Plan const& child : plan.children) write(child, out);
  test.column = node.place;
  test.low = node.low;
  test.high = node.high;
  if (node.kind == Node::Kind::kAnyOf) {
    test.low = static_cast<std::int64_t>(out.codes.size());
    out.codes.insert(out.codes.end(), node.codes.begin(), node.codes.end());
    // NaN equals nothing, itself neither. BoundFilter never gets there: no zone reaches it.
    if (node.column->kind == CodeKind::kFloat && out.codes.back() == kNanCode) out.codes.pop_back();
    test.n = out.codes.size() - static_cast<std::size_t>(test.low);
  }
  out.tests.push_back(test);
}

}  // namespace

TileProgram flatten(BoundFilter const& filter) {
  Plan const plan = plan_of(filter.root());
  require(plan.n_levels <= kMaxFilterLevels, "a filter of fewer than 10^8 tests");
  TileProgram out;
  write(plan, out);
  return out;
}

AttributeView view_of(AttributeColumn const& column) {
  return {column.codes.data(), column.is_list ? column.offsets.data() : nullptr,
          column.valid.empty() ? nullptr : column.valid.data(), column.zones().data(),
          column.n_rows};
}

}  // namespace hyrecall
