// Numbers distinct strings in order of first use. Open addressing over one arena.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/hash.hpp"
#include "core/types.hpp"

namespace hyrecall::text {

class StringTable {
 public:
  std::uint32_t size() const { return static_cast<std::uint32_t>(hashes_.size()); }
  std::size_t n_bytes() const { return bytes_.size(); }

  // Valid until the next add.
  std::string_view operator[](std::uint32_t id) const {
    return std::string_view(bytes_).substr(ends_[id], ends_[id + 1] - ends_[id]);
  }

  // kNone32 when absent.
  std::uint32_t find(std::string_view key) const {
    return slots_.empty() ? kNone32 : slots_[slot_of(key, hash_bytes(key))];
  }

  // `key` must not point into this table.
  std::uint32_t add(std::string_view key) {
    if ((hashes_.size() + 1) * 2 > slots_.size()) grow();
    std::uint64_t const hash = hash_bytes(key);
    std::uint32_t& slot = slots_[slot_of(key, hash)];
    if (slot == kNone32) {
      slot = size();
      hashes_.push_back(hash);
      bytes_.append(key);
      ends_.push_back(bytes_.size());
    }
    return slot;
  }

 private:
  std::size_t slot_of(std::string_view key, std::uint64_t hash) const {
    std::size_t const mask = slots_.size() - 1;
    std::size_t at = hash & mask;
    while (slots_[at] != kNone32 && (hashes_[slots_[at]] != hash || (*this)[slots_[at]] != key))
      at = (at + 1) & mask;
    return at;
  }

  void grow() {
    slots_.assign(slots_.empty() ? 64 : slots_.size() * 2, kNone32);
    std::size_t const mask = slots_.size() - 1;
    for (std::uint32_t id = 0; id < size(); ++id) {
      std::size_t at = hashes_[id] & mask;
      while (slots_[at] != kNone32) at = (at + 1) & mask;
      slots_[at] = id;
    }
  }

  std::string bytes_;
  std::vector<std::size_t> ends_{0};   // [size + 1] into bytes_
  std::vector<std::uint64_t> hashes_;  // [size]
  std::vector<std::uint32_t> slots_;   // a power of two, at most half full
};

}  // namespace hyrecall::text
