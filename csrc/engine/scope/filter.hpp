// Ad-hoc filters over attribute columns, answered tile by tile.
//
// A FilterProgram knows the schema only and serves every segment; a BoundFilter is that program on
// the columns of one segment. Logic is two-valued: a null matches no test, and `not` is the plain
// complement.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/types.hpp"
#include "core/zone.hpp"
#include "engine/segment/attributes.hpp"

namespace hyrecall {

// A tree. On list columns a test holds when one element passes it.
struct FilterProgram {
  enum class Kind : std::uint8_t {
    kCodesBetween,  // low <= code <= high; low > high holds nowhere
    kTextBetween,   // text_low <= string <= text_high in byte order, an absent end is open
    kCodesAnyOf,    // code is one of codes
    kTextAnyOf,     // string is one of texts
    kIsNull,
    kAnd,  // of no children: every row
    kOr,   // of no children: no row
    kNot,  // of one child
  };

  Kind kind = Kind::kAnd;
  std::uint32_t column = 0;  // of the five tests
  std::int64_t low = 0;
  std::int64_t high = 0;
  std::optional<std::string> text_low;
  std::optional<std::string> text_high;
  std::vector<std::int64_t> codes;  // any order
  std::vector<std::string> texts;   // any order
  std::vector<FilterProgram> children;

  static FilterProgram codes_between(std::uint32_t column, std::int64_t low, std::int64_t high);
  static FilterProgram text_between(std::uint32_t column, std::optional<std::string> low,
                                    std::optional<std::string> high);
  static FilterProgram codes_any_of(std::uint32_t column, std::vector<std::int64_t> codes);
  static FilterProgram text_any_of(std::uint32_t column, std::vector<std::string> texts);
  static FilterProgram is_null(std::uint32_t column);
  // Each throws where the program would have more than 1,000 levels: it is walked by recursion.
  static FilterProgram all_of(std::vector<FilterProgram> parts);
  static FilterProgram any_of(std::vector<FilterProgram> parts);
  static FilterProgram complement(FilterProgram part);
};

class BoundFilter {
 public:
  // The program as these columns understand it: strings are ranks, tests that hold nowhere are a
  // kOr of nothing.
  struct Node {
    enum class Kind : std::uint8_t { kBetween, kAnyOf, kIsNull, kAnd, kOr, kNot };
    Kind kind = Kind::kAnd;
    AttributeColumn const* column = nullptr;
    std::uint32_t place = 0;  // of the column among those given
    std::int64_t low = 0;
    std::int64_t high = 0;
    std::vector<std::int64_t> codes;  // rising, distinct, at least two
    std::vector<Node> children;
  };

  // The columns of one segment in the program's order; they must outlive the filter, the program
  // need not.
  BoundFilter(FilterProgram const& program, std::span<AttributeColumn const* const> columns,
              Row n_rows);

  // Reads zone maps only.
  ZoneAnswer answer(Row tile) const { return answer(root_, tile); }

  // Rows of the tile that match; bits past n_rows are 0. Reads values only where a zone map leaves
  // doubt.
  TileMask evaluate(Row tile) const;

  Node const& root() const { return root_; }

 private:
  static Node bind(FilterProgram const& program, std::span<AttributeColumn const* const> columns,
                   Row n_rows);
  static Node bind_test(FilterProgram const& program, AttributeColumn const& column);
  static Node bind_between(AttributeColumn const& column, std::int64_t low, std::int64_t high);
  static Node bind_any_of(AttributeColumn const& column, std::vector<std::int64_t> codes);
  static ZoneAnswer answer(Node const& node, Row tile);
  static ZoneAnswer answer_test(Node const& node, Row tile);
  static TileMask evaluate(Node const& node, Row tile);
  static TileMask evaluate_test(Node const& node, Row tile);

  Node root_;
  Row n_rows_;
};

}  // namespace hyrecall
