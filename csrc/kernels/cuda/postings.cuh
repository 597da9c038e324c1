// Postings of a lexical column as the device holds them: docs/kernels/lexical.md.
#pragma once

#include "kernels/cuda/status.cuh"

namespace hyrecall::cuda {

// Postings of a load of 16 bytes.
inline constexpr std::uint32_t kPostingsALoad = 4;
// Postings that are widened at a time: what lies on the device twice for a moment is 3 MiB.
inline constexpr std::uint32_t kPostingsAStep = 1u << 20;

struct alignas(16) FourPostings {
  std::uint32_t bits[kPostingsALoad];
};

// a_step: a multiple of kPostingsALoad.
LexicalSegment make_lexical(LexicalArrays const& from, DeviceArrays& memory,
                            std::uint32_t a_step = kPostingsAStep);

}  // namespace hyrecall::cuda
