// Rows of a column in several segments, gathered into one: against plain optional values.
#include <cstring>
#include <optional>
#include <string>

#include "core/error.hpp"
#include "engine/segment/gather.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

// A column of a segment as plain values, and its buffers; values of other rows lie before it.
template <typename T>
struct Piece {
  std::vector<std::optional<T>> values;
  std::vector<std::uint8_t> validity, bytes;
  std::vector<std::int64_t> offsets;
  std::size_t offset = 0;

  PlainColumn column(bool has_validity) const {
    PlainColumn out;
    out.offset = offset;
    out.length = values.size();
    out.validity = has_validity ? validity.data() : nullptr;
    if constexpr (std::is_same_v<T, std::string>) {
      out.layout = ValueLayout::kString;
      out.width = 8;
      out.values = offsets.data();
      out.bytes = bytes.data();
    } else {
      out.layout = std::is_same_v<T, bool> ? ValueLayout::kBool : ValueLayout::kFixed;
      out.width = std::is_same_v<T, bool> ? 1 : sizeof(T);
      out.values = bytes.data();
    }
    return out;
  }
};

template <typename T>
T random_value(Rng& rng) {
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(rng.below(std::size_t{6}), static_cast<char>('a' + rng.below(26)));
  } else if constexpr (std::is_same_v<T, bool>) {
    return rng.below(2) == 0;
  } else {
    return static_cast<T>(rng.below(1'000'000));
  }
}

template <typename T>
Piece<T> random_piece(Rng& rng, bool may_miss) {
  Piece<T> out;
  out.offset = rng.below(std::size_t{12});
  std::size_t const n = out.offset + 1 + rng.below(std::size_t{20});
  out.validity.assign((n + 7) / 8, 0);
  if (std::is_same_v<T, bool>) out.bytes.assign((n + 7) / 8, 0);
  out.offsets.push_back(0);
  for (std::size_t i = 0; i < n; ++i) {
    T const value = random_value<T>(rng);
    bool const is_there = !may_miss || rng.below(3) != 0;
    auto const bit = static_cast<std::uint8_t>(1u << (i % 8));
    if (is_there) out.validity[i / 8] = static_cast<std::uint8_t>(out.validity[i / 8] | bit);
    if constexpr (std::is_same_v<T, std::string>) {
      out.bytes.insert(out.bytes.end(), value.begin(), value.end());
      out.offsets.push_back(static_cast<std::int64_t>(out.bytes.size()));
    } else if constexpr (std::is_same_v<T, bool>) {
      if (value) out.bytes[i / 8] = static_cast<std::uint8_t>(out.bytes[i / 8] | bit);
    } else {
      out.bytes.resize((i + 1) * sizeof(T));
      std::memcpy(out.bytes.data() + i * sizeof(T), &value, sizeof(T));
    }
    if (i >= out.offset)
      out.values.push_back(is_there ? std::optional<T>(value) : std::optional<T>());
  }
  return out;
}

template <typename T>
std::optional<T> value_at(GatheredColumn const& column, std::size_t i) {
  if (column.n_missing > 0 && (column.validity[i / 8] >> (i % 8) & 1) == 0) return std::nullopt;
  if constexpr (std::is_same_v<T, std::string>) {
    return std::string(column.values.begin() + column.offsets[i],
                       column.values.begin() + column.offsets[i + 1]);
  } else if constexpr (std::is_same_v<T, bool>) {
    return (column.values[i / 8] >> (i % 8) & 1) != 0;
  } else {
    T value;
    std::memcpy(&value, column.values.data() + i * sizeof(T), sizeof(T));
    return value;
  }
}

template <typename T>
void check_gathered(Rng& rng, bool may_miss) {
  std::vector<Piece<T>> pieces;
  for (std::size_t n = 1 + rng.below(std::size_t{3}); n > 0; --n)
    pieces.push_back(random_piece<T>(rng, may_miss));
  std::vector<PlainColumn> columns;
  for (Piece<T> const& piece : pieces) columns.push_back(piece.column(may_miss));
  std::vector<PlainColumn const*> all;
  for (PlainColumn const& column : columns) all.push_back(&column);
  std::vector<std::uint32_t> source;
  std::vector<Row> row;
  for (std::size_t n = rng.below(std::size_t{30}); n > 0; --n) {
    source.push_back(static_cast<std::uint32_t>(rng.below(pieces.size())));
    row.push_back(static_cast<Row>(rng.below(pieces[source.back()].values.size())));
  }
  GatheredColumn const found = gather_rows(all, source, row);
  CHECK_EQ(found.length, row.size());
  std::size_t n_missing = 0;
  for (std::size_t i = 0; i < row.size(); ++i) {
    std::optional<T> const& expected = pieces[source[i]].values[row[i]];
    CHECK(value_at<T>(found, i) == expected);
    n_missing += expected ? 0 : 1;
  }
  CHECK_EQ(found.n_missing, n_missing);
}

template <typename F>
void check_refused(F&& gather, ErrorCode code) {
  bool is_refused = false;
  try {
    gather();
  } catch (Error const& error) {
    is_refused = error.code() == code;
  }
  CHECK(is_refused);
}

TEST(gathered_rows_have_the_values_of_the_segments_they_come_from) {
  Rng rng(321);
  for (int round = 0; round < 200; ++round) {
    bool const may_miss = round % 2 == 0;
    check_gathered<std::int64_t>(rng, may_miss);
    check_gathered<float>(rng, may_miss);
    check_gathered<bool>(rng, may_miss);
    check_gathered<std::string>(rng, may_miss);
  }
}

TEST(gathering_refuses_rows_outside_of_their_column_and_columns_of_two_types) {
  Rng rng(322);
  for (bool const may_miss : {false, true}) {
    Piece<std::int64_t> const piece = random_piece<std::int64_t>(rng, may_miss);
    Piece<std::string> const other = random_piece<std::string>(rng, may_miss);
    PlainColumn const column = piece.column(may_miss), strings = other.column(may_miss);
    auto const n = static_cast<Row>(piece.values.size());
    std::vector<PlainColumn const*> const one{&column}, both{&column, &strings};
    std::vector<std::uint32_t> const first{0}, second{1};
    std::vector<Row> const behind{n}, none{};
    check_refused([&] { gather_rows(one, first, behind); }, ErrorCode::kInternal);
    check_refused([&] { gather_rows(one, second, std::vector<Row>{0}); }, ErrorCode::kInternal);
    check_refused([&] { gather_rows(one, first, none); }, ErrorCode::kInternal);
    check_refused([&] { gather_rows(both, first, std::vector<Row>{0}); }, ErrorCode::kInternal);
    check_refused([&] { gather_rows({}, first, std::vector<Row>{0}); }, ErrorCode::kInternal);
  }
}

TEST(gathering_refuses_strings_whose_offsets_lead_back_or_out) {
  Piece<std::string> piece;
  piece.values = {"tea", "oak"};
  piece.bytes = {'t', 'e', 'a', 'o', 'a', 'k'};
  for (std::vector<std::int64_t> const& offsets :
       {std::vector<std::int64_t>{-1, 3, 6}, std::vector<std::int64_t>{3, 0, 6},
        std::vector<std::int64_t>{0, 9, 6}}) {
    piece.offsets = offsets;
    PlainColumn const column = piece.column(false);
    std::vector<PlainColumn const*> const one{&column};
    std::vector<std::uint32_t> const first{0};
    check_refused([&] { gather_rows(one, first, std::vector<Row>{0}); }, ErrorCode::kCorrupt);
  }
}

}  // namespace
}  // namespace hyrecall::testing
