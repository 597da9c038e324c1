// What:   scores[row] += table[code] for packed postings: 13 bits of row, 11 of code.
// In/Out: see ScoreKernels. Rows of one call are distinct, so four sums may be in flight at once.
// Cost:   three bytes, two loads and a store a posting; scores and table stay in L1.
// Oracle: the laws on each instruction set; tests/kernels holds the sets to each other.
//
// Included once by each scores_<isa>.cpp inside its own and an anonymous namespace: nothing here
// may be shared between instruction sets, or the linker keeps one copy for all.

inline std::uint32_t three_bytes(std::uint8_t const* at) {
  return at[0] | static_cast<std::uint32_t>(at[1]) << 8 | static_cast<std::uint32_t>(at[2]) << 16;
}

inline void add_coded(std::uint8_t const* postings, std::size_t n, float const* table,
                      float* scores) {
  constexpr std::uint32_t kRow = (1u << kCodedBits) - 1;
  constexpr std::uint32_t kCode = kCodes - 1;
  // A load takes a byte of the next posting with it, so the last group goes one by one.
  for (; n > 4; n -= 4, postings += 12) {
    std::uint32_t bits[4];
    for (int i = 0; i < 4; ++i) __builtin_memcpy(bits + i, postings + 3 * i, 4);
    float sums[4];
    for (int i = 0; i < 4; ++i)
      sums[i] = scores[bits[i] & kRow] + table[bits[i] >> kCodedBits & kCode];
    for (int i = 0; i < 4; ++i) scores[bits[i] & kRow] = sums[i];
  }
  for (; n > 0; --n, postings += 3) {
    std::uint32_t const bits = three_bytes(postings);
    scores[bits & kRow] += table[bits >> kCodedBits];
  }
}

// No branch: bits are random.
inline std::size_t select_one_by_one(std::uint8_t const* postings, std::size_t n,
                                     std::uint64_t const* words, std::uint8_t* out) {
  std::uint8_t* to = out;
  auto const take = [&](std::uint32_t bits) {
    std::uint32_t const row = bits & ((1u << kCodedBits) - 1);
    __builtin_memcpy(to, &bits, 4);
    to += (words[row / 64] >> (row % 64) & 1) * 3;
  };
  for (; n > 1; --n, postings += 3) {
    std::uint32_t bits;
    __builtin_memcpy(&bits, postings, 4);  // with a byte of the next
    take(bits);
  }
  if (n > 0) take(three_bytes(postings));
  return static_cast<std::size_t>(to - out) / 3;
}
