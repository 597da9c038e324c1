#include "engine/scope/filter.hpp"

#include <algorithm>
#include <string_view>
#include <utility>

#include "core/error.hpp"

namespace hyrecall {
namespace {

using Codes = std::span<std::int64_t const>;

// Up to here one pass a code beats a binary search a row: the pass has no branch.
constexpr std::size_t kFewCodes = 6;

// Rank of the first string >= text (or > text, if strict); the dictionary's size if there is none.
std::int64_t lower_rank(Strings const& dictionary, std::string_view text, bool strict) {
  std::size_t begin = 0;
  std::size_t end = dictionary.size();
  while (begin < end) {
    std::size_t const middle = begin + (end - begin) / 2;
    bool const before = strict ? dictionary[middle] <= text : dictionary[middle] < text;
    if (before) {
      begin = middle + 1;
    } else {
      end = middle;
    }
  }
  return static_cast<std::int64_t>(begin);
}

// The part of a rising list that lies in [low, high].
Codes codes_within(Codes codes, std::int64_t low, std::int64_t high) {
  auto const first = std::lower_bound(codes.begin(), codes.end(), low);
  auto const last = std::upper_bound(first, codes.end(), high);
  return {first, last};
}

// How many integers [low, high] holds, less one; needs low <= high. Unsigned, so that no extremes
// overflow.
std::uint64_t span_of(std::int64_t low, std::int64_t high) {
  return static_cast<std::uint64_t>(high) - static_cast<std::uint64_t>(low);
}

// Rows of a tile that hold an element with passes(code).
template <typename Passes>
TileMask match_tile(AttributeColumn const& column, Row tile, Passes passes) {
  Row const n = column.rows_in(tile);
  std::size_t const first = std::size_t{tile} * kTileRows;
  TileMask mask;
  if (column.is_list) {
    std::int64_t const* const starts = column.offsets.data() + first;
    for (Row i = 0; i < n; ++i) {
      std::int64_t const* const elements = column.codes.data();
      if (std::any_of(elements + starts[i], elements + starts[i + 1], passes)) mask.set(i);
    }
  } else {
    std::int64_t const* const codes = column.codes.data() + first;
    for (Row i = 0; i < std::min<Row>(n, 64); ++i) mask.low |= std::uint64_t{passes(codes[i])} << i;
    for (Row i = 64; i < n; ++i) mask.high |= std::uint64_t{passes(codes[i])} << (i - 64);
  }
  return mask & column.valid_in(tile);
}

TileMask match_between(AttributeColumn const& column, Row tile, std::int64_t low,
                       std::int64_t high) {
  // One unsigned comparison does for two: a code below low wraps to the top.
  std::uint64_t const span = span_of(low, high);
  return match_tile(column, tile, [=](std::int64_t code) { return span_of(low, code) <= span; });
}

}  // namespace

BoundFilter::BoundFilter(FilterProgram const& program,
                         std::span<AttributeColumn const* const> columns, Row n_rows)
    : root_(bind(program, columns, n_rows)), n_rows_(n_rows) {}

BoundFilter::Node BoundFilter::bind_between(AttributeColumn const& column, std::int64_t low,
                                            std::int64_t high) {
  Node node;
  node.kind = low <= high ? Node::Kind::kBetween : Node::Kind::kOr;
  node.column = &column;
  node.low = low;
  node.high = high;
  return node;
}

BoundFilter::Node BoundFilter::bind_any_of(AttributeColumn const& column,
                                           std::vector<std::int64_t> codes) {
  std::sort(codes.begin(), codes.end());
  codes.erase(std::unique(codes.begin(), codes.end()), codes.end());
  if (codes.empty()) return bind_between(column, 0, -1);
  // Neighbours, among them every single code, are an interval, which is tested faster.
  if (span_of(codes.front(), codes.back()) == codes.size() - 1) {
    return bind_between(column, codes.front(), codes.back());
  }
  Node node;
  node.kind = Node::Kind::kAnyOf;
  node.column = &column;
  node.codes = std::move(codes);
  return node;
}

BoundFilter::Node BoundFilter::bind(FilterProgram const& program,
                                    std::span<AttributeColumn const* const> columns, Row n_rows) {
  using Kind = FilterProgram::Kind;
  if (program.kind == Kind::kAnd || program.kind == Kind::kOr || program.kind == Kind::kNot) {
    require(program.kind != Kind::kNot || program.children.size() == 1, "one child of a negation");
    Node node;
    node.kind = program.kind == Kind::kAnd  ? Node::Kind::kAnd
                : program.kind == Kind::kOr ? Node::Kind::kOr
                                            : Node::Kind::kNot;
    node.children.reserve(program.children.size());
    for (FilterProgram const& child : program.children)
      node.children.push_back(bind(child, columns, n_rows));
    return node;
  }
  require(program.column < columns.size(), "a filter made for this segment's columns");
  AttributeColumn const& column = *columns[program.column];
  require(column.n_rows == n_rows, "columns as long as their segment");
  bool const reads_text = program.kind == Kind::kTextBetween || program.kind == Kind::kTextAnyOf;
  require(program.kind == Kind::kIsNull || reads_text == (column.kind == CodeKind::kText),
          "a filter made for this column's type");
  Node node = bind_test(program, column);
  node.place = program.column;
  return node;
}

BoundFilter::Node BoundFilter::bind_test(FilterProgram const& program,
                                         AttributeColumn const& column) {
  using Kind = FilterProgram::Kind;
  Strings const& dictionary = column.dictionary;
  switch (program.kind) {
    case Kind::kCodesBetween:
      return bind_between(column, program.low, program.high);
    case Kind::kTextBetween: {
      auto const n = static_cast<std::int64_t>(dictionary.size());
      return bind_between(
          column, program.text_low ? lower_rank(dictionary, *program.text_low, false) : 0,
          program.text_high ? lower_rank(dictionary, *program.text_high, true) - 1 : n - 1);
    }
    case Kind::kCodesAnyOf:
      return bind_any_of(column, program.codes);
    case Kind::kTextAnyOf: {
      std::vector<std::int64_t> codes;
      for (std::string const& text : program.texts) {
        std::int64_t const rank = lower_rank(dictionary, text, false);
        auto const at = static_cast<std::size_t>(rank);
        if (at < dictionary.size() && dictionary[at] == text) codes.push_back(rank);
      }
      return bind_any_of(column, std::move(codes));
    }
    default: {
      Node node;
      node.kind = Node::Kind::kIsNull;
      node.column = &column;
      return node;
    }
  }
}

ZoneAnswer BoundFilter::answer_test(Node const& node, Row tile) {
  Zone const& zone = node.column->zones()[tile];
  if (node.kind == Node::Kind::kIsNull) {
    if (zone.n_null == 0) return ZoneAnswer::kNone;
    return zone.n_null == node.column->rows_in(tile) ? ZoneAnswer::kAll : ZoneAnswer::kSome;
  }
  bool const is_between = node.kind == Node::Kind::kBetween;
  // Only the range without ends reaches NaN, which zone.min and zone.max leave out.
  if (is_between && node.high == kNanCode && zone.n_nan > 0) return ZoneAnswer::kSome;
  if (zone.min > zone.max) return ZoneAnswer::kNone;
  bool overlaps = false;
  bool covers = false;
  if (is_between) {
    overlaps = node.low <= zone.max && zone.min <= node.high;
    covers = node.low <= zone.min && zone.max <= node.high;
  } else {
    Codes const inside = codes_within(node.codes, zone.min, zone.max);
    overlaps = !inside.empty();
    covers = overlaps && span_of(zone.min, zone.max) == inside.size() - 1;
  }
  if (!overlaps) return ZoneAnswer::kNone;
  return covers && zone.n_bare == 0 ? ZoneAnswer::kAll : ZoneAnswer::kSome;
}

ZoneAnswer BoundFilter::answer(Node const& node, Row tile) {
  switch (node.kind) {
    case Node::Kind::kAnd:
    case Node::Kind::kOr: {
      // `decided` settles the whole at once, `neutral` leaves it to the others.
      bool const is_and = node.kind == Node::Kind::kAnd;
      ZoneAnswer const decided = is_and ? ZoneAnswer::kNone : ZoneAnswer::kAll;
      ZoneAnswer const neutral = is_and ? ZoneAnswer::kAll : ZoneAnswer::kNone;
      ZoneAnswer result = neutral;
      for (Node const& child : node.children) {
        ZoneAnswer const one = answer(child, tile);
        if (one == decided) return decided;
        if (one != neutral) result = ZoneAnswer::kSome;
      }
      return result;
    }
    case Node::Kind::kNot: {
      ZoneAnswer const inner = answer(node.children.front(), tile);
      if (inner == ZoneAnswer::kSome) return inner;
      return inner == ZoneAnswer::kNone ? ZoneAnswer::kAll : ZoneAnswer::kNone;
    }
    default:
      return answer_test(node, tile);
  }
}

TileMask BoundFilter::evaluate_test(Node const& node, Row tile) {
  switch (answer_test(node, tile)) {
    case ZoneAnswer::kNone:
      return {};
    case ZoneAnswer::kAll:
      return TileMask::all();
    case ZoneAnswer::kSome:
      break;
  }
  AttributeColumn const& column = *node.column;
  if (node.kind == Node::Kind::kIsNull) return ~column.valid_in(tile);
  if (node.kind == Node::Kind::kBetween) return match_between(column, tile, node.low, node.high);
  // Of a long list, few codes lie in the zone; kSome says that at least one does.
  Zone const& zone = column.zones()[tile];
  Codes const inside = codes_within(node.codes, zone.min, zone.max);
  if (inside.size() <= kFewCodes) {
    TileMask mask;
    for (std::int64_t const code : inside) mask = mask | match_between(column, tile, code, code);
    return mask;
  }
  return match_tile(column, tile, [=](std::int64_t code) {
    return std::binary_search(inside.begin(), inside.end(), code);
  });
}

TileMask BoundFilter::evaluate(Node const& node, Row tile) {
  switch (node.kind) {
    case Node::Kind::kAnd: {
      TileMask mask = TileMask::all();
      for (Node const& child : node.children) {
        mask = mask & evaluate(child, tile);
        if (!mask.any()) break;
      }
      return mask;
    }
    case Node::Kind::kOr: {
      TileMask mask;
      for (Node const& child : node.children) {
        mask = mask | evaluate(child, tile);
        if (mask.is_all()) break;
      }
      return mask;
    }
    case Node::Kind::kNot:
      return ~evaluate(node.children.front(), tile);
    default:
      return evaluate_test(node, tile);
  }
}

TileMask BoundFilter::evaluate(Row tile) const {
  return evaluate(root_, tile) & TileMask::below(std::min(kTileRows, n_rows_ - tile * kTileRows));
}

}  // namespace hyrecall
