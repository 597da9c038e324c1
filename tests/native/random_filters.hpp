// Random attribute columns of all kinds, and random filters over them.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/scope/tile_program.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {

using FilterKind = FilterProgram::Kind;

// ---- columns

enum Place : std::uint32_t { kInts, kFloats, kTexts, kIntLists, kFloatLists, kTextLists, kPlaces };

// The same values for a while, so that tiles are constant, then others; sorted at times.
struct Runs {
  Rng& rng;
  std::int64_t value = 0;
  std::size_t left = 0;

  std::int64_t next() {
    if (left == 0) {
      left = 1 + (rng.below(3) == 0 ? rng.below(std::size_t{400}) : rng.below(std::size_t{9}));
      value = rng.below(std::int64_t{12}) - 4;
    }
    left -= 1;
    return value;
  }
};

inline double float_of(std::int64_t value) {
  if (value == -4) return std::numeric_limits<double>::quiet_NaN();
  return value == 7 ? std::numeric_limits<double>::infinity() : static_cast<double>(value) / 2;
}
inline std::string text_of(std::int64_t value) {
  return std::string(static_cast<std::size_t>(value + 4) % 5, static_cast<char>('a' + value % 3));
}

template <typename T>
AttributeColumn nullable_lists(std::vector<std::optional<std::vector<T>>> const& lists) {
  std::vector<std::int64_t> offsets{0};
  std::vector<T> values;
  std::vector<bool> valid;
  for (auto const& list : lists) {
    if (list) values.insert(values.end(), list->begin(), list->end());
    valid.push_back(list.has_value());
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  std::vector<std::uint8_t> const bits = bits_of(valid);
  if constexpr (std::is_same_v<T, std::string>) {
    return build_list_column(offsets, {bits.data(), 0}, strings_of(values), {});
  } else {
    return build_list_column(offsets, {bits.data(), 0}, std::span<T const>(values), {});
  }
}

template <typename T, typename Convert>
AttributeColumn scalars(Rng& rng, Row n_rows, int one_null_in, Convert convert) {
  Runs runs{rng};
  std::vector<std::optional<T>> values;
  for (Row row = 0; row < n_rows; ++row) {
    T value = convert(runs.next());
    bool const is_null = one_null_in > 0 && rng.below(one_null_in) == 0;
    values.push_back(is_null ? std::nullopt : std::optional<T>(std::move(value)));
  }
  return scalar_column(values);
}

template <typename T, typename Convert>
AttributeColumn lists(Rng& rng, Row n_rows, int one_null_in, Convert convert) {
  Runs runs{rng};
  std::vector<std::optional<std::vector<T>>> all;
  for (Row row = 0; row < n_rows; ++row) {
    std::vector<T> list;
    for (int i = rng.below(4); i > 0; --i) list.push_back(convert(runs.next()));
    bool const is_null = one_null_in > 0 && rng.below(one_null_in) == 0;
    all.push_back(is_null ? std::nullopt : std::optional(std::move(list)));
  }
  return nullable_lists(all);
}

inline std::vector<AttributeColumn> random_columns(Rng& rng, Row n_rows) {
  auto const same = [](std::int64_t value) {
    return value == 7 ? std::numeric_limits<std::int64_t>::max() : value;
  };
  auto const nulls = [&] { return std::vector{0, 0, 1, 3, 200}[rng.below(std::size_t{5})]; };
  std::vector<AttributeColumn> columns;
  columns.push_back(scalars<std::int64_t>(rng, n_rows, nulls(), same));
  columns.push_back(scalars<double>(rng, n_rows, nulls(), float_of));
  columns.push_back(scalars<std::string>(rng, n_rows, nulls(), text_of));
  columns.push_back(lists<std::int64_t>(rng, n_rows, nulls(), same));
  columns.push_back(lists<double>(rng, n_rows, nulls(), float_of));
  columns.push_back(lists<std::string>(rng, n_rows, nulls(), text_of));
  return columns;
}

// ---- filters

inline std::int64_t float_code_of(double value) {
  return build_scalar_column(std::span<double const>(&value, 1), {}).codes[0];
}

inline std::int64_t random_code(Rng& rng, std::uint32_t column) {
  if (rng.below(12) == 0) return std::numeric_limits<std::int64_t>::max();
  if (rng.below(12) == 0) return std::numeric_limits<std::int64_t>::min();
  std::int64_t const value = rng.below(std::int64_t{14}) - 5;
  return column == kFloats || column == kFloatLists ? float_code_of(float_of(value)) : value;
}

inline FilterProgram random_test(Rng& rng) {
  FilterProgram test;
  test.column = rng.below(std::uint32_t{kPlaces});
  bool const is_text = test.column == kTexts || test.column == kTextLists;
  auto const text = [&] { return text_of(rng.below(std::int64_t{12}) - 4); };
  switch (rng.below(5)) {
    case 0:
      test.kind = FilterKind::kIsNull;
      break;
    case 1:
    case 2:
      test.kind = is_text ? FilterKind::kTextAnyOf : FilterKind::kCodesAnyOf;
      for (int i = rng.below(rng.below(4) == 0 ? 20 : 5); i > 0; --i) {
        if (is_text) {
          test.texts.push_back(text());
        } else {
          test.codes.push_back(random_code(rng, test.column));
        }
      }
      break;
    default:
      test.kind = is_text ? FilterKind::kTextBetween : FilterKind::kCodesBetween;
      test.low = random_code(rng, test.column);
      test.high = random_code(rng, test.column);
      if (rng.below(3) > 0 && test.low > test.high) std::swap(test.low, test.high);
      if (rng.below(3) > 0) test.text_low = text();
      if (rng.below(3) > 0) test.text_high = text();
  }
  return test;
}

inline FilterProgram joined(FilterKind kind, std::vector<FilterProgram> children) {
  FilterProgram node;
  node.kind = kind;
  node.children = std::move(children);
  return node;
}

inline FilterProgram random_filter(Rng& rng, int depth) {
  if (depth == 0 || rng.below(4) == 0) return random_test(rng);
  if (rng.below(3) == 0) return joined(FilterKind::kNot, {random_filter(rng, depth - 1)});
  std::vector<FilterProgram> children;
  int const n_children = rng.below(16) == 0 ? rng.below(30) : rng.below(4);
  for (int i = 0; i < n_children; ++i)
    children.push_back(random_filter(rng, depth - 1 - rng.below(depth)));
  return joined(rng.below(2) == 0 ? FilterKind::kAnd : FilterKind::kOr, std::move(children));
}

}  // namespace hyrecall::testing
