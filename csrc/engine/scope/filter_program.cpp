#include <algorithm>
#include <string>
#include <utility>

#include "core/error.hpp"
#include "engine/scope/filter.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kMostLevels = 1'000;

FilterProgram make_test(FilterProgram::Kind kind, std::uint32_t column) {
  FilterProgram program;
  program.kind = kind;
  program.column = column;
  return program;
}

std::size_t levels_of(FilterProgram const& program) {
  std::size_t below = 0;
  for (FilterProgram const& child : program.children) below = std::max(below, levels_of(child));
  return below + 1;
}

FilterProgram join(FilterProgram::Kind kind, std::vector<FilterProgram> children) {
  for (FilterProgram const& child : children) {
    if (levels_of(child) < kMostLevels) continue;
    throw Error(ErrorCode::kOption, "filter",
                "expected at most " + std::to_string(kMostLevels) + " levels, got more");
  }
  FilterProgram program;
  program.kind = kind;
  program.children = std::move(children);
  return program;
}

}  // namespace

FilterProgram FilterProgram::codes_between(std::uint32_t column, std::int64_t low,
                                           std::int64_t high) {
  FilterProgram program = make_test(Kind::kCodesBetween, column);
  program.low = low;
  program.high = high;
  return program;
}

FilterProgram FilterProgram::text_between(std::uint32_t column, std::optional<std::string> low,
                                          std::optional<std::string> high) {
  FilterProgram program = make_test(Kind::kTextBetween, column);
  program.text_low = std::move(low);
  program.text_high = std::move(high);
  return program;
}

FilterProgram FilterProgram::codes_any_of(std::uint32_t column, std::vector<std::int64_t> codes) {
  FilterProgram program = make_test(Kind::kCodesAnyOf, column);
  program.codes = std::move(codes);
  return program;
}

FilterProgram FilterProgram::text_any_of(std::uint32_t column, std::vector<std::string> texts) {
  FilterProgram program = make_test(Kind::kTextAnyOf, column);
  program.texts = std::move(texts);
  return program;
}

FilterProgram FilterProgram::is_null(std::uint32_t column) {
  return make_test(Kind::kIsNull, column);
}

FilterProgram FilterProgram::all_of(std::vector<FilterProgram> parts) {
  return join(Kind::kAnd, std::move(parts));
}

FilterProgram FilterProgram::any_of(std::vector<FilterProgram> parts) {
  return join(Kind::kOr, std::move(parts));
}

FilterProgram FilterProgram::complement(FilterProgram part) {
  std::vector<FilterProgram> parts;
  parts.push_back(std::move(part));
  return join(Kind::kNot, std::move(parts));
}

}  // namespace hyrecall
