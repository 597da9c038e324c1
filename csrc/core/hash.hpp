// 64-bit hashes for our open-addressing tables. A process draws a secret when it starts, so that no
// caller can choose keys that collide. Hashes are never stored and never decide an order.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace hyrecall {

struct HashSecret {
  std::uint64_t a, b, c;
};
HashSecret draw_hash_secret();
inline HashSecret const hash_secret = draw_hash_secret();

// The murmur3 finaliser: every input bit affects every output bit. It has no secret, so do not use
// it for keys that a caller chooses.
inline std::uint64_t mix64(std::uint64_t h) {
  h ^= h >> 33;
  h *= 0xff51afd7ed558ccdULL;
  h ^= h >> 33;
  h *= 0xc4ceb9fe1a85ec53ULL;
  h ^= h >> 33;
  return h;
}

namespace detail {

template <typename Word>
std::uint64_t read_word(char const* at) {
  Word word;
  std::memcpy(&word, at, sizeof word);
  return word;
}

// Both halves of the product, joined: each input bit reaches most output bits in one
// multiplication.
inline std::uint64_t multiply_fold(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  Wide const product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

}  // namespace detail

inline std::uint64_t hash_number(std::uint64_t number, std::uint64_t seed) {
  return mix64(detail::multiply_fold(number ^ seed ^ hash_secret.c, hash_secret.a) ^ seed);
}

// Most strings are words of at most 16 bytes: two loads, which may overlap, cover them.
inline std::uint64_t hash_bytes(std::string_view bytes, std::uint64_t seed = 0) {
  // Combine both factors with a secret first: a factor of 0 would cancel the other one.
  auto const [odd, other, start] = hash_secret;
  char const* at = bytes.data();
  std::size_t const n = bytes.size();
  std::uint64_t h = seed ^ start ^ (n * odd);
  std::uint64_t first = 0, last = 0;
  if (n >= 8) {
    char const* const end = at + n;
    for (; end - at > 16; at += 16)
      h = detail::multiply_fold(detail::read_word<std::uint64_t>(at) ^ odd,
                                detail::read_word<std::uint64_t>(at + 8) ^ h) +
          other;
    first = detail::read_word<std::uint64_t>(end - at >= 8 ? at : end - 8);
    last = detail::read_word<std::uint64_t>(end - 8);
  } else if (n >= 4) {
    first = detail::read_word<std::uint32_t>(at);
    last = detail::read_word<std::uint32_t>(at + n - 4);
  } else if (n > 0) {
    first = detail::read_word<std::uint8_t>(at) | detail::read_word<std::uint8_t>(at + n / 2) << 8 |
            detail::read_word<std::uint8_t>(at + n - 1) << 16;
  }
  return mix64(detail::multiply_fold(first ^ odd, last ^ other) ^ h);
}

// a and b hold n bytes each.
inline bool same_bytes(char const* a, char const* b, std::size_t n) {
  auto const agree = [&]<typename Word>(Word, std::size_t at) {
    return detail::read_word<Word>(a + at) == detail::read_word<Word>(b + at);
  };
  if (n > 16) return std::memcmp(a, b, n) == 0;
  if (n >= 8) return agree(std::uint64_t{}, 0) && agree(std::uint64_t{}, n - 8);
  if (n >= 4) return agree(std::uint32_t{}, 0) && agree(std::uint32_t{}, n - 4);
  for (std::size_t i = 0; i < n; ++i)
    if (a[i] != b[i]) return false;
  return true;
}

// As ==, but without a function call for short strings.
inline bool same_string(std::string_view a, std::string_view b) {
  return a.size() == b.size() && same_bytes(a.data(), b.data(), a.size());
}

// Hash of a table of strings that is searched by string views.
struct BytesHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view key) const { return hash_bytes(key); }
};

}  // namespace hyrecall
