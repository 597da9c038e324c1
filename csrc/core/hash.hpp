// 64-bit hash of a byte string, for our open-addressing tables. Never stored, never compared across
// versions.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace hyrecall {

// The murmur3 finaliser: every input bit reaches every output bit.
inline std::uint64_t mix64(std::uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  h ^= h >> 33;
  return h;
}

inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  std::uint64_t h = seed ^ (bytes.size() * 0x9e3779b97f4a7c15ULL);
  char const* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8) {
    std::uint64_t word;
    std::memcpy(&word, at, 8);
    h = mix64(h ^ word) + 0x9e3779b97f4a7c15ULL;
  }
  std::uint64_t tail = 0;
  if (left > 0) std::memcpy(&tail, at, left);
  return mix64(h ^ tail);
}

// Of a table of strings that is asked by views.
struct BytesHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return hash_bytes(key); }
};

}  // namespace hyrecall
