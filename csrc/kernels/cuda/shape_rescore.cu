// What:   scores the entries of a list anew, by age, weight or both, and orders the list by it.
// In/Out: ShapeJob: the lists, scores, rule, ages, half_lives, worths, ties; signals, raws,
//         new_scores, order.
// Launch: a CTA of kShapeThreads a query, rescore_bytes() of shared memory.
// Cost:   a power of 2 an entry, in float64; a bitonic sort of the list in shared memory.
// Oracle: engine/shaping/shaping.cpp, bit for bit (tests/native/test_shape_device.cpp).
#include "kernels/cuda/shape.cuh"
#include "kernels/cuda/sort_block.cuh"

namespace hyrecall::cuda {
namespace {

constexpr std::size_t kRecordBytes = sizeof(double) + sizeof(std::uint32_t);
static_assert(kMostShaped * kRecordBytes <= 48 * 1024, "what a CTA has without being asked");

}  // namespace

std::size_t rescore_bytes(std::uint32_t longest_list) {
  std::size_t n_sorted = 1;
  while (n_sorted < longest_list) n_sorted *= 2;
  return n_sorted * kRecordBytes;
}

__global__ void __launch_bounds__(kShapeThreads, 8) rescore_entries(ShapeJob const* job_at) {
  ShapeJob const& job = *job_at;
  std::uint32_t const query = blockIdx.x;
  if (query >= job.n_queries) return;
  std::uint32_t const begin = job.offsets[query];
  std::uint32_t const n = job.offsets[query + 1] - begin;
  std::uint32_t const n_sorted = power_of_two_from(n);
  auto* const scores = reinterpret_cast<double*>(shared_memory());
  auto* const places = reinterpret_cast<std::uint32_t*>(scores + n_sorted);
#pragma unroll 1
  for (std::uint32_t place = threadIdx.x; place < n_sorted; place += kShapeThreads) {
    places[place] = place < n ? place : kNone32;
    if (place >= n) continue;
    std::uint32_t const entry = begin + place;
    EntrySignals const signals{
        job.ages != nullptr ? job.ages[entry] : 0.0,
        job.half_lives != nullptr ? job.half_lives[entry] : job.rule.half_life,
        job.worths != nullptr ? job.worths[entry] : 0.0};
    EntryScore const made = rescored(job.rule, job.scores[entry], signals);
    scores[place] = made.score;
    job.new_scores[entry] = made.score;
    job.signals[entry] = made.signal;
    job.raws[entry] = made.raw;
  }
  std::int64_t const* const ties = job.ties + begin;
  sort_block<kShapeThreads>(
      n_sorted,
      [=](std::uint32_t i, std::uint32_t j) {
        std::uint32_t const own = places[i];
        std::uint32_t const other = places[j];
        if (own == kNone32 || other == kNone32) return own < other;
        return is_listed_before(scores[i], ties[own], own, scores[j], ties[other], other);
      },
      [=](std::uint32_t i, std::uint32_t j) {
        double const score = scores[i];
        std::uint32_t const place = places[i];
        scores[i] = scores[j];
        places[i] = places[j];
        scores[j] = score;
        places[j] = place;
      });
#pragma unroll 1
  for (std::uint32_t place = threadIdx.x; place < n; place += kShapeThreads)
    job.order[begin + place] = places[place];
}

}  // namespace hyrecall::cuda
