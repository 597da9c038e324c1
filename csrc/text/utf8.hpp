// UTF-8 in and out, one code point at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace hyrecall::text {

inline constexpr char32_t kReplacement = 0xFFFD;  // stands for each byte that is not UTF-8

struct CodePoint {
  char32_t value;
  std::uint32_t size;  // bytes read, at least 1
};

// Decodes at `at` < `end`. Overlong forms, surrogates and cut sequences are kReplacement, one byte
// each.
inline CodePoint decode_utf8(char const* at, char const* end) {
  auto const byte = [at](int i) {
    return static_cast<std::uint32_t>(static_cast<unsigned char>(at[i]));
  };
  auto const follows = [&](int i) { return at + i < end && (byte(i) & 0xC0) == 0x80; };
  std::uint32_t const lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead >= 0xC2 && lead < 0xE0 && follows(1)) return {(lead & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (lead >= 0xE0 && lead < 0xF0 && follows(1) && follows(2)) {
    std::uint32_t const c = (lead & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F);
    if (c >= 0x800 && (c < 0xD800 || c >= 0xE000)) return {c, 3};
  }
  if (lead >= 0xF0 && lead < 0xF5 && follows(1) && follows(2) && follows(3)) {
    std::uint32_t const c =
        (lead & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F);
    if (c >= 0x10000 && c < 0x110000) return {c, 4};
  }
  return {kReplacement, 1};
}

// Decodes the code point that ends before `at` > `begin`; a stray byte is kReplacement.
inline CodePoint decode_utf8_before(char const* begin, char const* at) {
  char const* start = at - 1;
  while (start > begin && at - start < 4 && (static_cast<unsigned char>(*start) & 0xC0) == 0x80)
    --start;
  CodePoint const c = decode_utf8(start, at);
  if (start + c.size == at) return c;
  return {kReplacement, 1};
}

// Where the code points of a UTF-8 text begin, and where it ends.
inline std::vector<std::size_t> code_point_starts(std::string_view text) {
  std::vector<std::size_t> out;
  for (std::size_t at = 0; at < text.size(); ++at)
    if ((static_cast<unsigned char>(text[at]) & 0xC0) != 0x80) out.push_back(at);
  out.push_back(text.size());
  return out;
}

inline void append_utf8(std::string& out, char32_t c) {
  auto const put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (c < 0x80) {
    put(c);
  } else if (c < 0x800) {
    put(0xC0 | c >> 6);
    put(0x80 | (c & 0x3F));
  } else if (c < 0x10000) {
    put(0xE0 | c >> 12);
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  } else {
    put(0xF0 | c >> 18);
    put(0x80 | (c >> 12 & 0x3F));
    put(0x80 | (c >> 6 & 0x3F));
    put(0x80 | (c & 0x3F));
  }
}

}  // namespace hyrecall::text
