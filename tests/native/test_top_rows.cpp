// The threshold of a list in the making.
#include <vector>

#include "engine/lexical/top_rows.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

std::vector<Seq> rising_seqs(std::size_t n) {
  std::vector<Seq> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = static_cast<Seq>(i);
  return out;
}

TEST(top_rows_tighten_to_the_worst_of_the_best) {
  std::vector<Seq> const seqs = rising_seqs(40);
  TopRows best;
  best.reset(2);
  best.begin(0, seqs.data(), 0.5f);
  best.tighten();
  CHECK_EQ(best.threshold(), 0.5f);
  for (Row row = 0; row < 20; ++row) best.offer(static_cast<float>(1 + row), row);
  best.tighten();
  CHECK_EQ(best.threshold(), 19.0f);
  std::vector<Candidate> const taken = best.take();
  CHECK_EQ(taken.size(), std::size_t{2});
  CHECK_EQ(taken[0].doc.row, Row{19});
  CHECK_EQ(taken[1].doc.row, Row{18});
}

// Another share may have told of more than this one has.
TEST(top_rows_never_lower_what_was_expected) {
  std::vector<Seq> const seqs = rising_seqs(40);
  TopRows best;
  best.reset(2);
  best.begin(0, seqs.data(), 0.5f);
  for (Row row = 0; row < 20; ++row) best.offer(static_cast<float>(1 + row), row);
  best.expect(30.0f);
  best.tighten();
  CHECK_EQ(best.threshold(), 30.0f);
  // Of equals the first seq is kept, whichever comes first.
  for (Row row = 39; row >= 30; --row) best.offer(30.0f, row);
  best.tighten();
  CHECK_EQ(best.threshold(), 30.0f);
  std::vector<Candidate> const taken = best.take();
  CHECK_EQ(taken[0].doc.row, Row{30});
  CHECK_EQ(taken[1].doc.row, Row{31});
}

}  // namespace
}  // namespace hyrecall::testing
