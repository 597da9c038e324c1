#include "device/dense_tuning.hpp"

#include <algorithm>
#include <vector>

#include "core/types.hpp"
#include "device/device_library.hpp"
#include "device/tuned.hpp"
#include "kernels/shared/lexical_job.hpp"

namespace hyrecall {
namespace {

constexpr std::size_t kLeastCapacity = 8192;
// A sample has some so many tiles at most. Every 64th tile says enough of the best 100
// (tools/stage_candidates.py), at a 64th of the time.
constexpr std::size_t kSampleTiles = 128;
constexpr std::size_t kLeastStride = 64;

constexpr std::size_t kTextBudget = std::size_t{1} << 23;  // candidates of a batch: 64 MB of keys
constexpr std::size_t kLeastTextCapacity = 16384;
constexpr std::size_t kMostTextCapacity = std::size_t{1} << 17;
constexpr std::size_t kSeedDocTiles = 4;
constexpr std::size_t kLeastDocStride = 8;
constexpr std::size_t kFewTexts = 64;  // up to here a pass waits for launches, not for visits

static_assert(are_keys_valid(kTuned));

}  // namespace

TunedKey TunedKey::of(std::uint32_t n_multiprocessors, std::uint64_t memory_bytes,
                      FirstPassPlane rows, std::uint32_t dim, std::size_t n_queries) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 34;  // 16 GiB
  auto const memory_class = static_cast<std::uint32_t>((memory_bytes + kStep / 2) / kStep * 16);
  auto const at = std::lower_bound(kBatchClasses.begin(), kBatchClasses.end(), n_queries);
  return {n_multiprocessors, memory_class, rows, std::bit_ceil(dim),
          at != kBatchClasses.end() ? *at : kBatchClasses.back()};
}

Tuned const* find_tuned(std::span<Tuned const> table, TunedKey const& key) {
  auto const at = std::find_if(table.begin(), table.end(),
                               [&](Tuned const& tuned) { return tuned.key == key; });
  return at != table.end() ? &*at : nullptr;
}

Tuned const* find_tuned(std::string const& folder, int ordinal, FirstPassPlane rows,
                        std::uint32_t dim, std::size_t n_queries) {
  if (kTuned.empty()) return nullptr;
  auto const& devices = device::of_folder<std::vector<device::Device>>(
      folder, [](std::string const& one) { return device::describe(one).devices; });
  auto const i = static_cast<std::size_t>(ordinal);
  if (i >= devices.size()) return nullptr;
  return find_tuned(kTuned, TunedKey::of(static_cast<std::uint32_t>(devices[i].n_multiprocessors),
                                         devices[i].memory_bytes, rows, dim, n_queries));
}

KernelChoice kernels_of(Tuned const& tuned) {
  KernelChoice out;
  for (std::uint32_t width = std::bit_ceil(tuned.widest + 1); width <= 1024; width *= 2)
    out.excluded |= KernelChoice::bit({tuned.plane, width, false});
  return out;
}

DenseTuning choose_tuning(std::size_t depth, std::size_t most_tiles, Tuned const* tuned) {
  // About 26 x depth rows of Gaussian data pass the guess, of 768 dimensions; data whose scores lie
  // closer has more.
  std::size_t const least_capacity = tuned != nullptr ? tuned->capacity : kLeastCapacity;
  std::size_t const capacity = std::min<std::size_t>(least_capacity + 32 * depth, kNone32 - 1);
  // A denser sample has more tiles.
  std::size_t const least_stride = tuned != nullptr ? tuned->stride : kLeastStride;
  std::size_t const sample_tiles =
      std::max<std::size_t>(kSampleTiles * kLeastStride / least_stride, 1);
  std::size_t const wanted = (most_tiles + sample_tiles - 1) / sample_tiles;
  std::size_t const stride = std::max(least_stride, std::bit_ceil(wanted));
  // What fits where candidates would be is read as a whole: a score of 4 bytes a row.
  std::size_t const whole_tiles = 2 * capacity / kTileRows;
  return {static_cast<std::uint32_t>(capacity), static_cast<std::uint32_t>(whole_tiles),
          static_cast<std::uint32_t>(stride)};
}

DenseTuning choose_lexical_tuning(std::size_t n_queries, std::size_t depth,
                                  std::size_t most_tiles) {
  std::size_t const share = kTextBudget / std::max<std::size_t>(n_queries, 1);
  std::size_t const capacity =
      std::max(kLeastTextCapacity + 32 * depth, std::min(share, kMostTextCapacity));
  // Many queries look at an eighth of their tiles first where they have more than 4: a threshold
  // spares the other visits the selection of their best rows.
  std::size_t const of_a_tile = std::clamp<std::size_t>(kMostOfDocTile * depth, 1, kDocTileRows);
  std::size_t const most = std::max<std::size_t>(capacity / 2 / of_a_tile, 1);
  std::size_t const seed_tiles =
      n_queries > kFewTexts ? std::min<std::size_t>(most, kSeedDocTiles) : most;
  std::size_t const stride = std::max(kLeastDocStride, (most_tiles + most - 1) / most);
  return {static_cast<std::uint32_t>(std::min<std::size_t>(capacity, kNone32 - 1)),
          static_cast<std::uint32_t>(seed_tiles), static_cast<std::uint32_t>(stride)};
}

}  // namespace hyrecall
