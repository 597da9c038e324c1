// Whole scans through heads of 8 and of 4 bits against a full sort of all scores, on random tables
// with ties, rows without a vector, dead rows, scopes, filters and floors, for every depth.
#include <algorithm>
#include <cmath>
#include <tuple>
#include <vector>

#include "engine/dense/scan.hpp"
#include "engine/request/dense_query.hpp"
#include "native/check.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

enum class Bug {
  kNone,
  kTiesByRow,           // not by number
  kIgnoresStrict,       // rows at a floor that is strict
  kCountsWithoutVector  // rows without a vector score 0
};

using Listed = std::vector<std::tuple<float, Seq, std::uint32_t, Row>>;

Listed plain(std::vector<Candidate> const& found) {
  Listed out;
  for (Candidate const& one : found)
    out.emplace_back(one.score, one.seq, one.doc.segment, one.doc.row);
  return out;
}

Listed sorted_rows(World const& world, Asked const& asked, DenseRequest const& arm, std::size_t q,
                   Bug bug) {
  Listed out;
  DenseQuery const query = arm.query(q);
  for (Doc const& doc : world.docs) {
    if (!asked.sees(q, doc)) continue;
    auto const& column = *world.snapshot.segments[doc.segment]->segment().p.dense[0];
    if (!column.has(doc.row) && bug != Bug::kCountsWithoutVector) continue;
    float score = 0.0f;
    column.score(query.padded.data(), query.inverse_norm, doc.row, doc.row + 1, &score);
    bool const is_at = bug == Bug::kIgnoresStrict && arm.floor.set && score == arm.floor.value;
    if (arm.floor.passes(score) || is_at) out.emplace_back(score, doc.seq, doc.segment, doc.row);
  }
  std::sort(out.begin(), out.end(), [&](auto const& a, auto const& b) {
    auto const& [score_a, seq_a, segment_a, row_a] = a;
    auto const& [score_b, seq_b, segment_b, row_b] = b;
    if (score_a != score_b) return score_a > score_b;
    if (bug == Bug::kTiesByRow) return std::tie(segment_a, row_a) < std::tie(segment_b, row_b);
    return seq_a < seq_b;
  });
  out.resize(std::min(out.size(), asked.request.depth));
  return out;
}

bool always_agrees(Bug bug) {
  constexpr FirstPassChoice kChoices[] = {FirstPassChoice::kHead4, FirstPassChoice::kHead8,
                                          FirstPassChoice::kInt8};
  Rng rng(61);
  for (int round = 0; round < 24; ++round) {
    WorldOptions options;
    options.n_segments = 1 + rng.below(std::size_t{3});
    options.max_rows = round % 3 == 0 ? 6'000 : 300;
    options.n_keys = 1 << 20;
    options.dim = std::vector<std::uint32_t>{5, 31, 48, 70}[rng.below(std::size_t{4})];
    options.first_pass = kChoices[rng.below(std::size_t{2})];
    World const world = random_world(rng, options);
    std::size_t const n_queries = round % 2 == 0 ? 1 : 9;
    Asked asked = random_asked(rng, options.n_cells, n_queries, 2, 1 + rng.below(3));
    std::vector<float> values;
    while (values.size() < n_queries * options.dim)  // some on the rows' own grid
      values.push_back(static_cast<float>(rng.below(5)) - 2.0f + 0.1f * (round % 2));
    values[0] = 1.0f;
    DenseRequest arm;
    arm.queries = prepare_queries(values.data(), n_queries, options.dim, {}, "vectors", 1);
    ResolvedScopes const scopes = resolve_scopes(world.snapshot, asked.request);
    QueryGroups const groups(asked.request);
    Audience const audience(world.snapshot, asked.request, scopes, groups);
    for (std::size_t const depth : {0, 1, 3, 10, 100, 700, 20'000}) {
      arm.floor = {};
      asked.request.depth = std::max<std::size_t>(depth, 1);
      Listed const best = sorted_rows(world, asked, arm, 0, Bug::kNone);
      asked.request.depth = depth;
      if (rng.below(2) == 0 && !best.empty())  // a score that some rows have
        arm.floor = {std::get<0>(best.back()), true, rng.below(2) == 0};
      for (FirstPassChoice const choice : kChoices) {
        asked.request.settings.first_pass = choice;
        auto const found = scan_dense(world.snapshot, asked.request, arm, audience);
        for (std::size_t q = 0; q < n_queries; ++q) {
          if (arm.query(q).inverse_norm == 0.0f) continue;
          if (plain(found[q]) != sorted_rows(world, asked, arm, q, bug)) return false;
        }
      }
    }
  }
  return true;
}

TEST(head_scans_equal_a_full_sort) {
  CHECK(always_agrees(Bug::kNone));
}

TEST(head_scan_planted_bugs_are_caught) {
  CHECK(!always_agrees(Bug::kTiesByRow));
  CHECK(!always_agrees(Bug::kIgnoresStrict));
  CHECK(!always_agrees(Bug::kCountsWithoutVector));
}

}  // namespace
}  // namespace hyrecall::testing
