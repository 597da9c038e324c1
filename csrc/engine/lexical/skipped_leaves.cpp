#include "engine/lexical/skipped_leaves.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace hyrecall {
namespace {

constexpr float kAnyFrequency = 0x1p32f;  // for a list whose greatest frequency is unknown
// Scoring a row in full costs as much as adding so many postings.
constexpr std::uint64_t kPostingsAScore = 600;
// Looking up the bits of a row and a leaf costs as much as adding so many postings.
constexpr std::uint64_t kPostingsAnAsk = 6;
// The share of the threshold that the leaves left out may add. The best share depends on the words,
// so the work on each tile adjusts it for the next.
constexpr double kFirstReach = 0.2, kMostReach = 0.95, kReachUp = 1.1;
constexpr double kReachDown = 0.8, kReachFarDown = 0.25;
constexpr std::uint64_t kFar = 3;

}  // namespace

float greatest_impact(Bm25Query const& query, std::size_t leaf, PostingList const& list,
                      std::uint32_t min_length) {
  float const freq =
      list.escapes.empty() ? static_cast<float>(list.format.escape()) : kAnyFrequency;
  // A document that holds the leaf has a length of at least 1.
  float const norm = query.length_norm(std::max(min_length, 1u));
  return query.impact(leaf, freq, norm) * kBoundSlack;
}

void SkippedLeaves::begin(std::span<float const> greatest) {
  greatest_.assign(greatest.begin(), greatest.end());
  for (float& one : greatest_)
    if (std::isnan(one)) one = std::numeric_limits<float>::infinity();
  rising_.resize(greatest.size());
  rank_.resize(greatest.size());
  for (std::uint32_t i = 0; i < rising_.size(); ++i) rising_[i] = i;
  std::sort(rising_.begin(), rising_.end(), [&](auto a, auto b) {
    return greatest_[a] != greatest_[b] ? greatest_[a] < greatest_[b] : a < b;
  });
  for (std::uint32_t i = 0; i < rising_.size(); ++i) rank_[rising_[i]] = i;
  n_skipped_ = 0;
  slack_ = static_cast<double>(greatest.size()) * 0x1p-22;
  reach_ = kFirstReach;
}

bool SkippedLeaves::choose(float threshold) {
  double rest = 0.0;
  for (n_skipped_ = 0; n_skipped_ < rising_.size(); ++n_skipped_) {
    double const more = rest + greatest_[rising_[n_skipped_]];
    if (!(more <= reach_ * threshold)) break;
    rest = more;
  }
  if (n_skipped_ == 0) return false;
  full_cut_ = std::nextafter(static_cast<float>(threshold * (1.0 - slack_)), 0.0f);
  cut_ = std::nextafter(static_cast<float>(threshold * (1.0 - slack_) - rest), 0.0f);
  return cut_ > 0.0f;
}

bool SkippedLeaves::pays(Work const& work) {
  std::uint64_t const of_rows = work.n_rows * kPostingsAScore;
  std::uint64_t const of_all = work.n_added + work.n_left_out;
  if (of_rows <= of_all) return true;
  reach_ *= of_rows / kFar > of_all ? kReachFarDown : kReachDown;
  return false;
}

// Adding postings and scoring rows trade off; the total is near its least where both cost about the
// same. Rows that reached the threshold do not count, since they are scored with any reach.
void SkippedLeaves::tell(Work const& work) {
  std::uint64_t const lost =
      work.n_asked * kPostingsAnAsk + (work.n_rows - work.n_found) * kPostingsAScore;
  if (lost > work.n_added) {
    reach_ *= kReachDown;
  } else if (lost * kFar < work.n_added) {
    reach_ = std::min(kMostReach, reach_ * kReachUp);
  }
}

}  // namespace hyrecall
