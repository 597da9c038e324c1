// The range by which scores of a list are scaled, for host and device.
#pragma once

#include "core/formulas.hpp"

namespace hyrecall {

// The lowest and the highest score of a list. Of equal ones (0 and -0) the first counts, so ranges
// that are joined in the list's order have the bits of one that took all.
struct ScoreRange {
  double low = 0.0;
  double high = 0.0;
  bool any = false;

  HYRECALL_HD void join(ScoreRange const& later) {
    if (!later.any) return;
    low = any && !(later.low < low) ? low : later.low;
    high = any && !(high < later.high) ? high : later.high;
    any = true;
  }
  HYRECALL_HD void add(double score) { join({score, score, true}); }
};

}  // namespace hyrecall
