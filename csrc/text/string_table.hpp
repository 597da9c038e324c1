// Numbers distinct strings in order of first use. Open addressing over one arena.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "core/buffer.hpp"
#include "core/hash.hpp"
#include "core/types.hpp"

namespace hyrecall::text {

class StringTable {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(ends_.size() - 1); }
  std::size_t n_bytes() const { return bytes_.size(); }

  // Valid until the next add.
  std::string_view operator[](std::uint32_t id) const {
    return {reinterpret_cast<char const*>(bytes_.data()) + ends_[id],
            static_cast<std::size_t>(ends_[id + 1] - ends_[id])};
  }

  // kNone32 when absent.
  std::uint32_t find(std::string_view key) const {
    return slots_.empty() ? kNone32 : slots_[slot_of(key, tag_of(key))].id;
  }

  // An empty table has room for so many keys from the beginning.
  void expect(std::size_t n_keys) {
    if (slots_.empty()) slots_.resize(std::bit_ceil(std::max<std::size_t>(64, (n_keys + 2) * 2)));
  }

  // All of them, by number; the table is of no more use.
  Strings take() && {
    slots_ = {};
    return {std::move(ends_), std::move(bytes_)};
  }

  // `key` must not point into this table.
  std::uint32_t add(std::string_view key) { return add(key, tag_of(key)); }

  // Appends the numbers of all keys. A large table lies in no near cache, so the keys' places are
  // asked for together before the first is looked at.
  void add_all(std::span<std::string_view const> keys, std::vector<std::uint32_t>& numbers) {
    expect(keys.size());
    std::array<std::uint32_t, kTogether> tags;
    for (std::size_t begin = 0; begin < keys.size(); begin += kTogether) {
      std::span const group = keys.subspan(begin, std::min(kTogether, keys.size() - begin));
      for (std::size_t i = 0; i < group.size(); ++i) {
        tags[i] = tag_of(group[i]);
        if (!slots_.empty()) __builtin_prefetch(&slots_[tags[i] & (slots_.size() - 1)]);
      }
      for (std::size_t i = 0; !slots_.empty() && i < group.size(); ++i) {
        std::uint32_t const id = slots_[tags[i] & (slots_.size() - 1)].id;
        if (id != kNone32) __builtin_prefetch(&ends_[id]);
      }
      for (std::size_t i = 0; i < group.size(); ++i) numbers.push_back(add(group[i], tags[i]));
    }
  }

 private:
  static constexpr std::size_t kTogether = 64;

  std::uint32_t add(std::string_view key, std::uint32_t tag) {
    if ((ends_.size() + 1) * 2 > slots_.size()) grow();
    Slot& slot = slots_[slot_of(key, tag)];
    if (slot.id == kNone32) {
      // The slot comes last, so that a failing allocation leaves the table as it was.
      std::uint32_t const id = size();
      ends_.reserve(std::bit_ceil(ends_.size() + 1));
      bytes_.insert(bytes_.end(), key.begin(), key.end());
      ends_.push_back(static_cast<std::int64_t>(bytes_.size()));
      slot = {tag, id};
    }
    return slot.id;
  }

  struct Slot {
    std::uint32_t tag =
        0;  // of the key's hash: tells most other keys without reading them, and places the slot
    std::uint32_t id = kNone32;
  };

  static std::uint32_t tag_of(std::string_view key) {
    return static_cast<std::uint32_t>(hash_bytes(key) >> 32);
  }

  std::size_t slot_of(std::string_view key, std::uint32_t tag) const {
    std::size_t const mask = slots_.size() - 1;
    std::size_t at = tag & mask;
    while (slots_[at].id != kNone32 && (slots_[at].tag != tag || !holds(slots_[at].id, key)))
      at = (at + 1) & mask;
    return at;
  }

  bool holds(std::uint32_t id, std::string_view key) const {
    std::string_view const held = (*this)[id];
    return held.size() == key.size() && same_bytes(held.data(), key.data(), key.size());
  }

  void grow() {
    std::vector<Slot> const old = std::exchange(slots_, {});
    slots_.resize(old.empty() ? 64 : old.size() * 2);
    std::size_t const mask = slots_.size() - 1;
    for (Slot const& slot : old) {
      if (slot.id == kNone32) continue;
      std::size_t at = slot.tag & mask;
      while (slots_[at].id != kNone32) at = (at + 1) & mask;
      slots_[at] = slot;
    }
  }

  std::vector<std::uint8_t> bytes_;
  std::vector<std::int64_t> ends_{0};  // [size + 1] into bytes_
  std::vector<Slot> slots_;            // a power of two, at most half full
};

}  // namespace hyrecall::text
