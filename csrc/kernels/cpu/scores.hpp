// Summing and sifting BM25 scores of a document tile, and picking postings of some of its rows; one
// copy per instruction set.
#pragma once

#include <cstddef>
#include <cstdint>

namespace hyrecall::cpu {

inline constexpr std::size_t kSiftRows = 64;     // sift() takes whole blocks of so many scores
inline constexpr std::size_t kSiftSpare = 16;    // what it may write past its last result
inline constexpr unsigned kCodedBits = 13;       // of a posting, that name a score
inline constexpr std::size_t kCodes = 1 << 11;   // impacts the others can name
inline constexpr std::size_t kSelectSpare = 64;  // bytes select_coded() may write past its last

struct ScoreKernels {
  // Adds table[posting >> kCodedBits] to scores[posting % 2^kCodedBits] for n postings of 24 bits,
  // back to back and of distinct scores.
  void (*add_coded)(std::uint8_t const* postings, std::size_t n, float const* table, float* scores);
  // Gives place and value of each of n scores (none negative) that reaches a threshold above 0, by
  // place, and how many; all are 0 afterwards. n is a multiple of kSiftRows.
  std::size_t (*sift)(float* scores, std::size_t n, float threshold, std::uint32_t* places,
                      float* values);
  // Copies those of n such postings, back to back, whose score's bit is set in the 2^kCodedBits
  // bits of `words`; gives how many.
  std::size_t (*select_coded)(std::uint8_t const* postings, std::size_t n,
                              std::uint64_t const* words, std::uint8_t* out);
};

ScoreKernels scalar_score_kernels();
ScoreKernels avx2_score_kernels();
ScoreKernels avx512_score_kernels();
ScoreKernels neon_score_kernels();

}  // namespace hyrecall::cpu
