// What:   a lexical column on the device: postings of three bytes become words of four.
// In/Out: LexicalArrays: host arrays, checked by device/device_segment.cpp.
// Launch: widen_postings: any grid, a thread for four postings.
// Cost:   an upload of the host's bytes; 3 bytes read and 4 written a posting, once.
// Oracle: PostingList::for_each of engine/lexical/posting_list.hpp.
#include <algorithm>

#include "kernels/cuda/postings.cuh"
#include "kernels/cuda/primitives.cuh"

namespace hyrecall::cuda {
namespace {

constexpr unsigned kWidenThreads = 256;
constexpr std::uint32_t kWordsALoad = 3;  // of four postings of three bytes

// from: n postings of three bytes, in whole words for four of them. to: up to three more, of 0.
__global__ void __launch_bounds__(kWidenThreads)
    widen_postings(std::uint32_t const* from, std::uint32_t n, std::uint32_t* to) {
  std::uint32_t const n_loads = (n + kPostingsALoad - 1) / kPostingsALoad;
  std::uint32_t const step = gridDim.x * kWidenThreads;
  for (std::uint32_t i = blockIdx.x * kWidenThreads + threadIdx.x; i < n_loads; i += step) {
    std::uint32_t const* const words = from + kWordsALoad * i;
    std::uint32_t const a = words[0], b = words[1], c = words[2];
    FourPostings out{
        {a & 0xffffff, a >> 24 | (b & 0xffff) << 8, b >> 16 | (c & 0xff) << 16, c >> 8}};
    std::uint32_t const left = n - kPostingsALoad * i;  // of this load and those after it
    for (std::uint32_t k = 1; k < kPostingsALoad; ++k) out.bits[k] = k < left ? out.bits[k] : 0;
    *reinterpret_cast<FourPostings*>(to + kPostingsALoad * i) = out;
  }
}

std::size_t whole_loads(std::size_t n) {
  return (n + kPostingsALoad - 1) / kPostingsALoad;
}

std::uint32_t const* widened(std::span<std::uint8_t const> from, DeviceArrays& memory,
                             std::uint32_t a_step) {
  std::size_t const n = from.size() / PostingFormat::kCompact;
  auto* const out = memory.room<std::uint32_t>(kPostingsALoad * whole_loads(n));
  DeviceArray<std::uint32_t> const given(kWordsALoad *
                                         whole_loads(std::min<std::size_t>(n, a_step)));
  for (std::size_t done = 0; done < n; done += a_step) {
    auto const part = static_cast<std::uint32_t>(std::min<std::size_t>(n - done, a_step));
    // Both come after the step before: on the default stream, as all of an upload.
    check(cudaMemcpy(given.data(), from.data() + PostingFormat::kCompact * done,
                     std::size_t{PostingFormat::kCompact} * part, cudaMemcpyHostToDevice));
    unsigned const grid =
        static_cast<unsigned>(whole_loads(part) + kWidenThreads - 1) / kWidenThreads;
    check(launch(widen_postings, grid, kWidenThreads, 0, nullptr,
                 static_cast<std::uint32_t const*>(given.data()), part, out + done));
  }
  return out;
}

// Postings that have four bytes already.
std::uint32_t const* copied(std::span<std::uint8_t const> from, DeviceArrays& memory) {
  std::size_t const n = from.size() / PostingFormat::kWide;
  std::size_t const n_places = kPostingsALoad * whole_loads(n);
  auto* const out = memory.room<std::uint32_t>(n_places);
  check(cudaMemsetAsync(out + n, 0, (n_places - n) * sizeof *out, nullptr));
  if (n > 0) check(cudaMemcpy(out, from.data(), from.size(), cudaMemcpyHostToDevice));
  return out;
}

}  // namespace

LexicalSegment make_lexical(LexicalArrays const& from, DeviceArrays& memory, std::uint32_t a_step) {
  LexicalSegment out{};
  out.posting_width = from.posting_width;
  out.doc_lengths = memory.upload(from.doc_lengths);
  out.posting_offsets = memory.upload(from.posting_offsets);
  out.postings = from.posting_width == PostingFormat::kCompact
                     ? widened(from.postings, memory, a_step)
                     : copied(from.postings, memory);
  out.run_offsets = memory.upload(from.run_offsets);
  out.runs = memory.upload(from.runs);
  out.escape_offsets = memory.upload(from.escape_offsets);
  out.escapes = memory.upload(from.escapes);
  return out;
}

}  // namespace hyrecall::cuda
