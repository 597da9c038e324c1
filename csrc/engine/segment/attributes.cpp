#include "engine/segment/attributes.hpp"

#include <bit>
#include <limits>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/error.hpp"
#include "core/hash.hpp"

namespace hyrecall {
namespace {

constexpr std::uint64_t kSignBit = std::uint64_t{1} << 63;

// Tests bits, not values: a host that flushes denormals must not change an order.
std::int64_t float_code(double value) {
  auto const bits = std::bit_cast<std::uint64_t>(value);
  if ((bits & ~kSignBit) > 0x7ff0000000000000ULL) return kNanCode;
  if (bits == kSignBit) return 0;  // -0 equals +0
  return static_cast<std::int64_t>((bits & kSignBit) != 0 ? bits ^ ~kSignBit : bits);
}

template <typename T>
std::int64_t code_of(T value) {
  if constexpr (std::is_floating_point_v<T>) {
    return float_code(static_cast<double>(value));
  } else if constexpr (std::is_same_v<T, std::uint64_t>) {
    return static_cast<std::int64_t>(value ^ kSignBit);
  } else {
    return static_cast<std::int64_t>(value);
  }
}

// The distinct strings met so far, numbered by first use; open addressing, at most half full.
class DistinctStrings {
 public:
  std::uint32_t number_of(std::string_view text) {
    if (2 * (texts_.size() + 1) > slots_.size()) grow();
    std::size_t const slot = find(text);
    if (slots_[slot] == kNone32) {
      require(texts_.size() < kNone32, "fewer than 2^32 distinct strings in a segment");
      slots_[slot] = static_cast<std::uint32_t>(texts_.size());
      texts_.push_back(text);
    }
    return slots_[slot];
  }
  std::vector<std::string_view> const& texts() const { return texts_; }

 private:
  std::size_t find(std::string_view text) const {
    std::size_t const mask = slots_.size() - 1;
    std::size_t slot = hash_bytes(text) & mask;
    while (slots_[slot] != kNone32 && texts_[slots_[slot]] != text) slot = (slot + 1) & mask;
    return slot;
  }
  void grow() {
    slots_.assign(std::max<std::size_t>(16, 2 * slots_.size()), kNone32);
    for (std::uint32_t i = 0; i < texts_.size(); ++i) slots_[find(texts_[i])] = i;
  }

  std::vector<std::uint32_t> slots_;  // a power of two; kNone32: free
  std::vector<std::string_view> texts_;
};

// Writes the dictionary in byte order and returns each distinct string's rank. std::string_view
// compares as unsigned bytes, which for UTF-8 is the order of code points.
std::vector<std::uint32_t> sort_dictionary(std::vector<std::string_view> const& texts,
                                           Strings& dictionary) {
  std::vector<std::uint32_t> order(texts.size());
  std::iota(order.begin(), order.end(), 0U);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return texts[a] < texts[b]; });
  std::vector<std::uint32_t> rank(texts.size());
  std::vector<std::int64_t> offsets{0};
  std::vector<std::uint8_t> bytes;
  offsets.reserve(texts.size() + 1);
  for (std::uint32_t i = 0; i < order.size(); ++i) {
    std::string_view const text = texts[order[i]];
    rank[order[i]] = i;
    bytes.insert(bytes.end(), text.begin(), text.end());
    offsets.push_back(static_cast<std::int64_t>(bytes.size()));
  }
  dictionary = {std::move(offsets), std::move(bytes)};
  return rank;
}

// Codes of n elements, element i at values[position(i)]; position(i) < 0 leaves out a null, whose
// bytes mean nothing.
template <typename Position>
void encode(ArrowValues const& values, std::size_t n, Position position, AttributeColumn& column) {
  std::vector<std::int64_t> codes(n, 0);
  std::visit(
      [&](auto const& typed) {
        using Typed = std::decay_t<decltype(typed)>;
        if constexpr (std::is_same_v<Typed, Strings>) {
          column.kind = CodeKind::kText;
          DistinctStrings distinct;
          for (std::size_t i = 0; i < n; ++i) {
            std::int64_t const at = position(i);
            if (at >= 0) codes[i] = distinct.number_of(typed[static_cast<std::size_t>(at)]);
          }
          std::vector<std::uint32_t> const rank =
              sort_dictionary(distinct.texts(), column.dictionary);
          for (std::size_t i = 0; i < n; ++i) {
            if (position(i) >= 0) codes[i] = rank[static_cast<std::size_t>(codes[i])];
          }
        } else {
          if (std::is_floating_point_v<typename Typed::value_type>) column.kind = CodeKind::kFloat;
          for (std::size_t i = 0; i < n; ++i) {
            std::int64_t const at = position(i);
            if (at >= 0) codes[i] = code_of(typed[static_cast<std::size_t>(at)]);
          }
        }
      },
      values);
  column.codes = std::move(codes);
}

// Two words a tile; empty when every row is valid, so that the common column carries no bitmap.
Buffer<std::uint64_t> pack_valid(ValidityBits valid, Row n_rows, Row n_tiles) {
  if (valid.bits == nullptr) return {};
  std::vector<std::uint64_t> words(2 * std::size_t{n_tiles}, 0);
  Row n_valid = 0;
  for (Row row = 0; row < n_rows; ++row) {
    words[row >> 6] |= std::uint64_t{valid[row]} << (row & 63);
    n_valid += valid[row] ? 1 : 0;
  }
  if (n_valid == n_rows) return {};
  return words;
}

// Of a tile whose rows all have one value, and none is a NaN: most columns.
Zone zone_of_values(std::span<std::int64_t const> codes) {
  Zone zone;
  for (std::int64_t const code : codes) {  // no branch, so that the compiler takes several at once
    zone.min = std::min(zone.min, code);
    zone.max = std::max(zone.max, code);
  }
  return zone;
}

Zone zone_of(AttributeColumn const& column, Row tile) {
  if (!column.is_list && column.valid.empty() && column.kind != CodeKind::kFloat)
    return zone_of_values(
        column.codes.span().subspan(std::size_t{tile} * kTileRows, column.rows_in(tile)));
  Zone zone;
  TileMask const valid = column.valid_in(tile);
  for (Row i = 0; i < column.rows_in(tile); ++i) {
    std::size_t const row = std::size_t{tile} * kTileRows + i;
    bool bare = true;
    bool nan = false;
    if (valid.test(i)) {
      auto const begin = column.is_list ? static_cast<std::size_t>(column.offsets[row]) : row;
      auto const end = column.is_list ? static_cast<std::size_t>(column.offsets[row + 1]) : row + 1;
      for (std::size_t at = begin; at < end; ++at) {
        std::int64_t const code = column.codes[at];
        if (column.kind == CodeKind::kFloat && code == kNanCode) {
          nan = true;
          continue;
        }
        bare = false;
        zone.min = std::min(zone.min, code);
        zone.max = std::max(zone.max, code);
      }
    }
    zone.n_null += valid.test(i) ? 0 : 1;
    zone.n_nan += nan ? 1 : 0;
    zone.n_bare += bare ? 1 : 0;
  }
  return zone;
}

Row checked_rows(std::size_t n_rows) {
  require(n_rows <= kNone32 - kTileRows, "fewer than 2^32 - 128 rows in a segment");
  return static_cast<Row>(n_rows);
}

}  // namespace

AttributeColumn build_scalar_column(ArrowValues const& values, ValidityBits valid,
                                    std::shared_ptr<void const> owner) {
  AttributeColumn column;
  column.n_rows = checked_rows(std::visit([](auto const& typed) { return typed.size(); }, values));
  auto const* const whole = std::get_if<std::span<std::int64_t const>>(&values);
  if (whole != nullptr && valid.bits == nullptr && owner != nullptr) {
    column.codes = {whole->data(), whole->size(), std::move(owner)};  // values are their own codes
  } else {
    encode(
        values, column.n_rows,
        [&](std::size_t i) { return valid[i] ? static_cast<std::int64_t>(i) : -1; }, column);
  }
  column.valid = pack_valid(valid, column.n_rows, column.n_tiles());
  return column;
}

AttributeColumn build_list_column(std::span<std::int64_t const> offsets, ValidityBits valid,
                                  ArrowValues const& values, ValidityBits elements_valid) {
  require(!offsets.empty(), "n_rows + 1 offsets");
  AttributeColumn column;
  column.is_list = true;
  column.n_rows = checked_rows(offsets.size() - 1);
  std::vector<std::int64_t> kept;  // where the elements that are not null lie in values
  std::vector<std::int64_t> starts{0};
  starts.reserve(offsets.size());
  for (std::size_t row = 0; row + 1 < offsets.size(); ++row) {
    // Arrow lets a null list point at elements; they are nobody's.
    for (std::int64_t at = offsets[row]; valid[row] && at < offsets[row + 1]; ++at) {
      if (elements_valid[static_cast<std::size_t>(at)]) kept.push_back(at);
    }
    starts.push_back(static_cast<std::int64_t>(kept.size()));
  }
  column.offsets = std::move(starts);
  encode(values, kept.size(), [&](std::size_t i) { return kept[i]; }, column);
  column.valid = pack_valid(valid, column.n_rows, column.n_tiles());
  return column;
}

Buffer<Zone> const& AttributeColumn::zones() const {
  if (Buffer<Zone> const* const held = made_->zones.load(std::memory_order_acquire)) return *held;
  // Made without a lock: two threads may both do it, and the first result stays.
  std::vector<Zone> zones(n_tiles());
  for (Row tile = 0; tile < n_tiles(); ++tile) zones[tile] = zone_of(*this, tile);
  auto fresh = std::make_unique<Buffer<Zone> const>(std::move(zones));
  Buffer<Zone> const* expected = nullptr;
  if (!made_->zones.compare_exchange_strong(expected, fresh.get(), std::memory_order_acq_rel))
    return *expected;
  return *fresh.release();
}

std::size_t AttributeColumn::bytes() const {
  Buffer<Zone> const* const held = made_->zones.load(std::memory_order_acquire);
  return codes.bytes() + offsets.bytes() + valid.bytes() + dictionary.offsets.bytes() +
         dictionary.bytes.bytes() + (held == nullptr ? 0 : held->bytes());
}

std::optional<std::int64_t> AttributeColumn::find(std::string_view text) const {
  std::size_t low = 0, high = dictionary.size();
  while (low < high) {
    std::size_t const middle = low + (high - low) / 2;
    if (dictionary[middle] < text) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  if (low == dictionary.size() || dictionary[low] != text) return std::nullopt;
  return static_cast<std::int64_t>(low);
}

std::vector<std::int64_t> AttributeColumn::sort_codes() const {
  require(!is_list, "a column without lists");
  std::vector<std::int64_t> out(codes.size());
  for (Row row = 0; row < out.size(); ++row) {
    bool const has = valid_in(row / kTileRows).test(row % kTileRows);
    out[row] = has ? codes[row] : std::numeric_limits<std::int64_t>::min();
  }
  return out;
}

}  // namespace hyrecall
