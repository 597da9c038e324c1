// What the device holds of a lexical column: docs/kernels/lexical.md.
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

struct DeviceLexical {
  std::uint32_t posting_width = 0;             // postings have the fields of this PostingFormat
  DeviceArray<std::uint32_t> doc_lengths;      // [n_rows]
  DeviceArray<std::uint64_t> posting_offsets;  // [n_terms + 1]
  // [n_postings] four bytes each, then 0 up to a whole load
  DeviceArray<std::uint32_t> postings;
  DeviceArray<std::uint32_t> run_offsets;  // [n_terms + 1]
  DeviceArray<PostingRun> runs;
  DeviceArray<std::uint32_t> escape_offsets;  // [n_terms + 1]
  DeviceArray<PostingEscape> escapes;

  std::size_t bytes() const;
};

// a_step: a multiple of kPostingsALoad.
DeviceLexical make_lexical(LexicalParams const& from, std::uint32_t a_step = kPostingsAStep);

}  // namespace hyrecall::cuda
