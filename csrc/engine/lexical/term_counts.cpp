#include "engine/lexical/term_counts.hpp"

#include <algorithm>
#include <bit>
#include <cstring>

namespace hyrecall {
namespace {

static_assert(std::endian::native == std::endian::little);

// With n^2 / 2 slots a random factor gives each of n terms its own slot in a third of all cases.
constexpr std::size_t kLeastSlots = 256, kMostSlots = 1 << 14;  // for up to 181 terms
constexpr int kFactorsASize = 8;
constexpr std::uint32_t kFirstFactor = 0x9e3779b1u, kNextFactor = 0x85ebca6bu;  // odd
constexpr std::size_t kWord = 8;  // bytes read at once, also past the row's end
constexpr std::uint64_t kContinues = 0x8080808080808080u;  // the high bit of each byte

std::uint64_t read_word(std::uint8_t const* at) {
  std::uint64_t out;
  std::memcpy(&out, at, kWord);
  return out;
}

// The number of a LEB128 of `n` bytes, at most five, at the low end of a word.
std::uint32_t decode(std::uint64_t bytes, std::size_t n) {
  std::uint64_t const all = (bytes & 0x7f) | (bytes >> 1 & 0x3f80) | (bytes >> 2 & 0x1fc000) |
                            (bytes >> 3 & 0xfe00000) | (bytes >> 4 & 0x7f0000000);
  return static_cast<std::uint32_t>(all & ((std::uint64_t{1} << 7 * n) - 1));
}

}  // namespace

bool TermCounts::begin(LexicalColumn const& column, std::span<TermId const> terms) {
  column_ = &column;
  counts_.assign(terms.size(), 0);
  std::uint32_t factor = kFirstFactor;
  for (std::size_t size = std::max(kLeastSlots, std::bit_ceil(terms.size() * terms.size() / 2));
       size <= kMostSlots; size *= 2) {
    slots_.resize(size);
    shift_ = 32u - static_cast<unsigned>(std::countr_zero(size));
    for (int i = 0; i < kFactorsASize; ++i, factor *= kNextFactor) {
      if (fill(terms, factor)) return true;
    }
  }
  return false;
}

bool TermCounts::fill(std::span<TermId const> terms, std::uint32_t factor) {
  std::fill(slots_.begin(), slots_.end(), Slot{0, 0});
  factor_ = factor;
  for (std::uint32_t place = 0; place < terms.size(); ++place) {
    if (terms[place] == kNone32) continue;
    std::uint32_t const code = terms[place] + 1;
    Slot& slot = slots_[code * factor >> shift_];
    if (slot.code != 0) return false;
    slot = {code, place};
  }
  return true;
}

std::span<std::uint32_t const> TermCounts::count(Row row) {
  std::fill(counts_.begin(), counts_.end(), 0);
  LexicalColumn::Parts const& parts = column_->parts();
  std::uint8_t const* const bytes = parts.forward_bytes.data();
  std::uint64_t const last = parts.forward_offsets[row + 1];
  auto const add = [&](std::uint32_t code) {
    Slot const slot = slots_[code * factor_ >> shift_];
    counts_[slot.place] += slot.code == code ? 1 : 0;
  };
  if (last + kWord > parts.forward_bytes.size()) {
    column_->for_each_token(row, [&](TermId term, std::uint32_t) { add(term + 1); });
    return counts_;
  }
  std::uint8_t const* begin = bytes + parts.forward_offsets[row];  // of the next number
  std::uint8_t const* const end = bytes + last;
  bool is_distance = false;
  for (std::uint8_t const* word = begin; word < end; word += kWord) {
    std::uint64_t ends = ~read_word(word) & kContinues;  // bytes at which a number ends
    if (end - word < static_cast<std::ptrdiff_t>(kWord))
      ends &= (std::uint64_t{1} << 8 * (end - word)) - 1;
    for (; ends != 0; ends &= ends - 1) {
      std::uint8_t const* const behind = word + std::countr_zero(ends) / 8 + 1;
      std::uint32_t const code = decode(read_word(begin), static_cast<std::size_t>(behind - begin));
      begin = behind;
      if (is_distance || code == 0) {  // after a 0 comes a distance
        is_distance = !is_distance;
        continue;
      }
      add(code);
    }
  }
  return counts_;
}

}  // namespace hyrecall
