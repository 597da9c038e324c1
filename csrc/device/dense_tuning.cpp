#include "device/dense_tuning.hpp"

#include <algorithm>
#include <bit>

#include "core/types.hpp"
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

}  // namespace

DenseTuning choose_tuning(std::size_t depth, std::size_t most_tiles) {
  // About 26 x depth rows of Gaussian data pass the guess, of 768 dimensions; data whose scores lie
  // closer has more.
  std::size_t const capacity = std::min<std::size_t>(kLeastCapacity + 32 * depth, kNone32 - 1);
  std::size_t const wanted = (most_tiles + kSampleTiles - 1) / kSampleTiles;
  std::size_t const stride = std::max(kLeastStride, std::bit_ceil(wanted));
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
