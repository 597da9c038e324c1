// Numbers distinct strings in order of first use. Open addressing over one arena.
#pragma once

#include <bit>
#include <cstdint>
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

  // All of them, by number; the table is of no more use.
  Strings take() && {
    slots_ = {};
    return {std::move(ends_), std::move(bytes_)};
  }

  // `key` must not point into this table.
  std::uint32_t add(std::string_view key) {
    if ((ends_.size() + 1) * 2 > slots_.size()) grow();
    std::uint32_t const tag = tag_of(key);
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

 private:
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
