// Attribute columns and filter programs from bytes, compared with a naive evaluation of each row;
// the flat program of devices too.
#include "engine/scope/filter.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "engine/scope/tile_program.hpp"
#include "fuzz/native/fuzz.hpp"
#include "kernels/shared/tile_filter.hpp"
#include "native/corpus.hpp"

using namespace hyrecall;
using namespace hyrecall::fuzzing;

namespace {

struct Source {
  std::uint8_t const* at;
  std::uint8_t const* end;
  std::uint8_t byte() { return at < end ? *at++ : 0; }
  std::uint32_t below(std::uint32_t n) {
    return n == 0 ? 0 : (n > 255 ? byte() << 8 | byte() : byte()) % n;
  }
  std::int64_t number() {
    std::uint8_t const how = byte();
    if (how < 200) return how - 100;
    static std::int64_t const odd[] = {INT64_MIN, INT64_MAX, INT64_MIN + 1, INT64_MAX - 1,
                                       -1,        0,         1LL << 52,     -(1LL << 53)};
    if (how < 240) return odd[how % 8];
    std::uint64_t v = 0;
    for (int i = 0; i < 8; ++i) v = v << 8 | byte();
    return static_cast<std::int64_t>(v);
  }
  std::string text() {
    std::string s;
    for (std::uint32_t n = below(5); n > 0; --n) s += static_cast<char>(byte());
    return s;
  }
};
template <typename T>
T value_of(Source& s) {
  if constexpr (std::is_same_v<T, std::string>)
    return s.text();
  else if constexpr (std::is_floating_point_v<T>) {
    std::int64_t v = s.number();
    if (v > 60 && v < 100) {
      double d = 0;
      std::uint64_t w = static_cast<std::uint64_t>(s.number());
      w ^= static_cast<std::uint64_t>(s.number()) << 32;
      std::memcpy(&d, &w, 8);
      return static_cast<T>(d);
    }
    return v == 42 ? std::nan("") : static_cast<T>(v);
  } else
    return static_cast<T>(s.number());
}
struct Made {
  AttributeColumn column;
};

template <typename T>
AttributeColumn make(Source& s, Row n, bool is_list) {
  std::vector<T> values;
  std::vector<std::int64_t> offsets{0};
  std::uint8_t const nulls = s.byte();
  // Runs, so that zone maps decide.
  T run = value_of<T>(s);
  std::uint32_t left = s.below(200);
  for (Row r = 0; r < n; ++r) {
    for (std::uint32_t k = is_list ? s.below(4) : 1; k > 0; --k) {
      if (left == 0) {
        run = value_of<T>(s);
        left = s.below(200);
      } else
        --left;
      values.push_back(run);
    }
    offsets.push_back(static_cast<std::int64_t>(values.size()));
  }
  std::size_t const first = nulls % 9;
  auto const bits_for = [&](std::size_t m) {
    std::vector<std::uint8_t> b((first + m + 7) / 8, 0xff);
    if (nulls > 100)
      for (auto& x : b)
        x = nulls > 200 ? static_cast<std::uint8_t>(s.byte() | s.byte())
                        : (s.byte() > 250 ? 0 : 0xff);
    return b;
  };
  auto const value_bits = bits_for(values.size());
  auto const list_bits = bits_for(n);
  ValidityBits const v{nulls > 50 ? value_bits.data() : nullptr, nulls > 50 ? first : 0},
      l{nulls > 70 ? list_bits.data() : nullptr, nulls > 70 ? first : 0};
  ArrowValues const arrow = [&]() -> ArrowValues {
    if constexpr (std::is_same_v<T, std::string>)
      return testing::strings_of(values);
    else
      return std::span<T const>(values);
  }();
  if constexpr (std::is_same_v<T, std::string>)
    return is_list ? build_list_column(offsets, l, arrow, v) : build_scalar_column(arrow, v);
  else {
    auto const own = std::make_shared<std::vector<T>>(values);
    ArrowValues const kept = std::span<T const>(*own);
    return is_list ? build_list_column(offsets, l, kept, v) : build_scalar_column(kept, v, own);
  }
}
AttributeColumn column_from(Source& s, Row n) {
  bool const is_list = s.byte() % 2 == 1;
  switch (s.below(9)) {
    case 0:
      return make<std::int64_t>(s, n, is_list);
    case 1:
      return make<double>(s, n, is_list);
    case 2:
      return make<std::string>(s, n, is_list);
    case 3:
      return make<std::uint64_t>(s, n, is_list);
    case 4:
      return make<std::int8_t>(s, n, is_list);
    case 5:
      return make<std::uint8_t>(s, n, is_list);
    case 6:
      return make<float>(s, n, is_list);
    case 7:
      return make<std::int32_t>(s, n, is_list);
    default:
      return make<std::string>(s, n, is_list);
  }
}
FilterProgram program_from(Source& s, std::vector<AttributeColumn> const& columns, int depth) {
  std::uint8_t const how = s.byte();
  if (depth > 0 && how < 120) {
    std::vector<FilterProgram> children;
    for (std::uint32_t k = how % 3 == 2 ? 1 : s.below(how % 7 == 0 ? 70 : 4); k > 0; --k)
      children.push_back(program_from(s, columns, depth - 1));
    if (how % 3 == 0) return FilterProgram::all_of(std::move(children));
    if (how % 3 == 1) return FilterProgram::any_of(std::move(children));
    return FilterProgram::complement(std::move(children[0]));
  }
  auto const column = static_cast<std::uint32_t>(
      s.below(static_cast<std::uint32_t>(columns.size()) + (how == 255 ? 2 : 0)));
  bool text = column < columns.size() && columns[column].kind == CodeKind::kText;
  if (how == 254) text = !text;
  auto const code = [&] {
    if (column < columns.size() && s.byte() % 2 == 0 && !columns[column].codes.empty())
      return static_cast<std::int64_t>(
          static_cast<std::uint64_t>(columns[column].codes[s.below(
              static_cast<std::uint32_t>(columns[column].codes.size()))]) +
          (s.byte() % 8 == 0));
    return s.number();
  };
  switch (s.below(5)) {
    case 0:
      return FilterProgram::is_null(column);
    case 1:
    case 2:
      if (text) {
        std::vector<std::string> t;
        for (std::uint32_t k = s.below(12); k > 0; --k) t.push_back(s.text());
        return FilterProgram::text_any_of(column, t);
      } else {
        std::vector<std::int64_t> c;
        for (std::uint32_t k = s.below(40); k > 0; --k) c.push_back(code());
        return FilterProgram::codes_any_of(column, c);
      }
    default:
      if (text)
        return FilterProgram::text_between(column,
                                           s.byte() % 2 ? std::optional(s.text()) : std::nullopt,
                                           s.byte() % 2 ? std::optional(s.text()) : std::nullopt);
      else {
        std::int64_t const low = code(), high = code();
        return FilterProgram::codes_between(column, low, high);
      }
  }
}
bool naive(FilterProgram const& p, std::vector<AttributeColumn> const& columns, Row row) {
  using K = FilterProgram::Kind;
  if (p.kind == K::kAnd) {
    for (auto const& c : p.children)
      if (!naive(c, columns, row)) return false;
    return true;
  }
  if (p.kind == K::kOr) {
    for (auto const& c : p.children)
      if (naive(c, columns, row)) return !(is_planted() && p.children.size() > 2);
    return false;
  }
  if (p.kind == K::kNot) return !naive(p.children[0], columns, row);
  AttributeColumn const& c = columns[p.column];
  bool const valid = c.valid.empty() || ((c.valid[row / 64] >> (row % 64)) & 1) != 0;
  if (p.kind == K::kIsNull) return !valid;
  if (!valid) return false;
  std::int64_t const begin = c.is_list ? c.offsets[row] : row,
                     end = c.is_list ? c.offsets[row + 1] : row + 1;
  for (std::int64_t i = begin; i < end; ++i) {
    std::int64_t const code = c.codes[static_cast<std::size_t>(i)];
    bool hit = false;
    if (p.kind == K::kCodesBetween)
      hit = p.low <= code && code <= p.high;
    else if (p.kind == K::kCodesAnyOf) {
      for (auto x : p.codes) hit |= x == code;
    } else {
      std::string_view const text = c.dictionary[static_cast<std::size_t>(code)];
      if (p.kind == K::kTextBetween)
        hit = (!p.text_low || *p.text_low <= text) && (!p.text_high || text <= *p.text_high);
      else
        for (auto const& t : p.texts) hit |= t == text;
    }
    if (hit) return true;
  }
  return false;
}
// NaN is outside every range that has an end, and in no list (docs): such programs are left to the
// engine's own tests.
bool names_nan(FilterProgram const& p) {
  for (auto const& c : p.children)
    if (names_nan(c)) return true;
  for (auto c : p.codes)
    if (c == kNanCode) return true;
  return p.high == kNanCode || p.low == kNanCode;
}
}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size < 4) return 0;
  Source s{data, data + size};
  Row const n = s.below(700);
  std::vector<AttributeColumn> columns;
  for (std::uint32_t k = 1 + s.below(3); k > 0; --k) columns.push_back(column_from(s, n));
  std::vector<AttributeColumn const*> pointers;
  bool has_float = false;
  for (auto const& c : columns) {
    pointers.push_back(&c);
    has_float |= c.kind == CodeKind::kFloat;
    REQUIRE(c.n_rows == n);
  }
  FilterProgram const program = program_from(s, columns, 6);
  try {
    BoundFilter const bound(program, pointers, n);
    TileProgram const flat = flatten(bound);
    std::vector<AttributeView> views;
    for (auto const& c : columns) views.push_back(view_of(c));
    bool const skip = has_float && names_nan(program);
    for (Row tile = 0; tile * kTileRows < n; ++tile) {
      TileMask const mask = bound.evaluate(tile);
      ZoneAnswer const answer = bound.answer(tile);
      Row const here = std::min<Row>(kTileRows, n - tile * kTileRows);
      REQUIRE(!(mask & ~TileMask::below(here)).any());
      if (answer == ZoneAnswer::kNone) REQUIRE(!mask.any());
      if (answer == ZoneAnswer::kAll) REQUIRE(mask == TileMask::below(here));
      ZoneAnswer const flat_answer = zone_answer(flat.view(), views.data(), tile);
      REQUIRE(flat_answer == answer);
      for (Row i = 0; i < here; ++i) {
        Row const row = tile * kTileRows + i;
        if (!skip) REQUIRE(mask.test(i) == naive(program, columns, row));
        REQUIRE(row_passes(flat.view(), views.data(), row) == mask.test(i));
      }
    }
  } catch (Error const&) {
  }
  for (auto const& c : columns)
    if (!c.is_list) (void)c.sort_codes();
  return 0;
}
