// Lists that are joined, completed and fused on the emulated device, against the host's hits.
#include "engine/pool_on_device.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/hybrid_cases.hpp"
#include "native/planted.hpp"
#include "native/pool_cases.hpp"
#include "native/text_cases.hpp"

namespace hyrecall::testing {
namespace {

ReplyArrays hits_on_device(PoolCase const& from, std::string const& folder) {
  std::vector<device::PoolLists> arms;
  std::vector<std::uint32_t> tiles;
  for (std::uint32_t const slot : from.first_slots) tiles.push_back(slot / kTileRows);
  std::size_t const n_lexical = from.request.lexical.size();
  std::size_t most = 0;
  for (std::size_t arm = 0; arm < from.arms.size(); ++arm) {
    PoolCase::Flat const& one = from.arms[arm];
    device::PoolLists lists{};
    lists.kind = arm < n_lexical                               ? PoolArmKind::kLexical
                 : arm < n_lexical + from.request.dense.size() ? PoolArmKind::kDense
                                                               : PoolArmKind::kListed;
    lists.here = {tiles, one.begins, one.counts, one.scores, one.seqs, one.slots};
    arms.push_back(lists);
  }
  for (QueryCandidates const& pool : from.pools) most = std::max(most, pool.docs.size());
  device::PoolBatch batch{};
  batch.n_queries = static_cast<std::uint32_t>(from.request.n_queries);
  batch.arms = arms;
  batch.fusion = pool_fusion_of(from.request, most);
  ReplyArrays out;
  device::make_hits(folder, 0, batch,
                    [&](PoolResults const& results, std::span<std::uint32_t const> lost) {
                      CHECK(lost.empty());
                      out = reply_of_pools(results, batch.fusion, arms, 0, batch.n_queries, 1);
                    });
  return out;
}

std::size_t check_lists(Rng& rng, std::size_t most,
                        std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  PoolCase const one = random_pool_case(rng, most);
  std::vector<QueryCandidates> const* const parts[] = {&one.pools};
  ReplyArrays const expected = merge(one.request, parts);
  check_replies(hits_on_device(one, folder), expected);
  return expected.rank.size();
}

TEST(device_fuses_lists_as_the_host_does) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(31);
  std::size_t n_hits = 0;
  for (std::size_t n = 0; n < 300; ++n) {
    SeedOf const order(n % 4);
    n_hits += check_lists(rng, 1 + rng.below(std::size_t{60}));
  }
  CHECK(n_hits > 3'000);
}

TEST(device_fuses_the_longest_lists) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(32);
  std::size_t n_hits = 0;
  for (std::size_t n = 0; n < 8; ++n) n_hits += check_lists(rng, kMostPoolList);
  CHECK(n_hits > 1'000);
}

// ---- lists that arms found, with completion

std::size_t check_hybrid(Rng& rng, HybridRound const& round,
                         std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  Snapshot const on_host = random_text_world(rng, round.world);
  BatchRequest request = random_hybrid_request(rng, round, on_host);
  if (round.has_little_room)
    request.settings.tuning = DenseTuning{static_cast<std::uint32_t>(round.depth + 4), 1, 2};
  std::vector<QueryCandidates> const pools = candidates_of(on_host, request);
  std::vector<QueryCandidates> const* const parts[] = {&pools};
  ReplyArrays const expected = merge(request, parts);
  Execution const of_host(on_host, request);
  check_replies(of_host.hits(of_host.statistics()).arrays, expected);
  Snapshot const on_device = with_postings(on_host, folder);
  Execution const execution(on_device, request);
  check_replies(execution.hits(execution.statistics()).arrays, expected);
  return expected.rank.size();
}

HybridRound hybrid_round_of(Rng& rng, std::size_t n) {
  HybridRound out;
  out.variant = kBm25Variants[n % kBm25Variants.size()];
  out.world.is_wide = n % 5 == 4;
  out.world.sizes = {1 + rng.below(std::size_t{300}), 1 + rng.below(std::size_t{90})};
  out.world.vocabulary = n % 3 == 0 ? 6 : 40;
  out.world.n_cells = 1 + static_cast<int>(n % 6);
  out.world.has_dead = n % 4 != 0;
  out.world.dim = 1 + rng.below(std::uint32_t{n % 6 == 0 ? 100u : 12u});
  out.world.dtype = std::array{DType::kFloat32, DType::kFloat16, DType::kBFloat16}[n % 3];
  out.depth = 1 + rng.below(std::size_t{n % 2 == 0 ? 12u : 80u});
  out.n_queries = 1 + rng.below(std::size_t{8});
  out.n_lexical = n % 7 == 6 ? 0 : n % 4 == 1 ? 2 : 1;
  out.n_dense = out.n_lexical == 0 ? 2 : n % 5 == 2 ? 0 : 1;
  out.has_listed = n % 3 == 2;
  out.has_floors = n % 3 == 1;
  out.has_little_room = n % 4 == 3;
  return out;
}

// Of one arm nothing is fused: its list is cut and copied, with the bytes of what merge() makes.
std::size_t check_single_arm(Rng& rng, HybridRound const& round, std::size_t n) {
  Snapshot const on_host = random_text_world(rng, round.world);
  BatchRequest request = random_hybrid_request(rng, round, on_host);
  request.fusion = {};
  request.fusion.weights = {1.0};
  if (n % 3 == 0) request.fusion.scales = {FusionScale::kNone};
  request.limit = rng.below(round.depth + 4);
  request.offset = n % 4 == 1 ? rng.below(std::size_t{6}) : 0;
  request.normalize = n % 5 == 1;
  request.min_fused = {};
  std::vector<QueryCandidates> const pools = candidates_of(on_host, request);
  std::vector<float> const& scores = pools[n % pools.size()].scores;
  if (n % 3 == 1 && !scores.empty())
    request.min_fused = {scores[rng.below(scores.size())], true, rng.below(2) == 0};
  std::vector<QueryCandidates> const* const parts[] = {&pools};
  ReplyArrays const expected = merge(request, parts);
  Execution const of_host(on_host, request);
  check_replies(of_host.hits(of_host.statistics()).arrays, expected);
  Snapshot const on_device = with_postings(on_host);
  Execution const execution(on_device, request);
  check_replies(execution.hits(execution.statistics()).arrays, expected);
  return expected.rank.size();
}

TEST(device_gives_the_list_of_a_single_arm) {
  skip_under_thread_sanitizer();
  Rng rng(38);
  std::size_t n_hits = 0;
  for (std::size_t n = 0; n < cases(90u); ++n) {
    HybridRound round = hybrid_round_of(rng, n);
    round.n_lexical = n % 2;
    round.n_dense = 1 - n % 2;
    round.has_listed = false;
    n_hits += check_single_arm(rng, round, n);
  }
  CHECK(n_hits > cases(1'000u));
}

TEST(device_makes_the_hits_that_the_cpu_makes) {
  skip_under_thread_sanitizer();
  Rng rng(33);
  std::size_t n_hits = 0;
  for (std::size_t n = 0; n < cases(150u); ++n) {
    SeedOf const order(n % 4);
    n_hits += check_hybrid(rng, hybrid_round_of(rng, n));
  }
  CHECK(n_hits > cases(3'000u));
}

// Queries of small cells keep their hits beside those that are searched again.
TEST(device_searches_queries_again_that_a_submission_lost) {
  skip_under_thread_sanitizer();
  Rng rng(37);
  std::size_t n_again = 0;
  for (std::size_t n = 0; n < cases(30u); ++n) {
    HybridRound round = hybrid_round_of(rng, n);
    round.world.sizes = {900, 200};
    round.world.n_cells = 4;
    round.n_queries = 12;
    round.has_little_room = true;
    emulator::DeviceWork const before = emulated().work();
    check_hybrid(rng, round);
    emulator::DeviceWork const work = emulated().work() - before;
    n_again += work.n_waits > 1 ? 1 : 0;
  }
  CHECK(n_again > cases(10u));
}

TEST(device_completes_texts_of_segments_of_several_document_tiles) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(34);
  std::size_t n_hits = 0;
  for (std::size_t n = 0; n < 8; ++n) {
    HybridRound round = hybrid_round_of(rng, n);
    round.world.sizes = {8'192 + rng.below(std::size_t{9'000}), 1 + rng.below(std::size_t{100})};
    round.world.is_wide = false;
    round.world.vocabulary = 200;
    n_hits += check_hybrid(rng, round);
  }
  CHECK(n_hits > 100);
}

// Three kernels behind the searches make the hits; lists that the CPU found are joined there.
TEST(device_makes_hits_where_it_found_all_lists) {
  skip_under_thread_sanitizer();
  Rng rng(35);
  HybridRound round = hybrid_round_of(rng, 0);
  round.n_lexical = round.n_dense = 1;
  round.has_listed = false;
  Snapshot const on_host = random_text_world(rng, round.world);
  BatchRequest request = random_hybrid_request(rng, round, on_host);
  Snapshot const on_device = with_postings(on_host);
  auto const n_launches = [&](auto const& make) {
    Execution const execution(on_device, request);
    std::uint64_t const before = emulated().work().n_launches;
    make(execution);
    return emulated().work().n_launches - before;
  };
  auto const hits = [](Execution const& one) { one.hits(one.statistics()); };
  auto const candidates = [](Execution const& one) { one.candidates(one.statistics()); };
  CHECK_EQ(n_launches(hits), n_launches(candidates) + 3);
  std::string many;
  for (int word = 0; word < 40; ++word) many += " w" + std::to_string(word);
  request.lexical[0].queries[0] =
      TextQuery::all({TextQuery::of_text(many), TextQuery::of_text("w1")});
  CHECK_EQ(n_launches(hits), n_launches(candidates));
}

// ---- planted bugs (cmake/planted_bugs.cmake)

// All rounds from `first` on, each drawn for itself: where a bug is known to show, it costs one.
bool are_hits_caught(std::string const& folder, std::size_t first = 0) {
  constexpr std::size_t kPools = 120;
  for (std::size_t i = 0; i < kPools; ++i) {
    std::size_t const n = (first + i) % kPools;
    Rng rng(8 * kPools + n);
    try {
      SeedOf const order(n % 4, folder);
      check_lists(rng, 1 + rng.below(std::size_t{60}), folder);
      check_hybrid(rng, hybrid_round_of(rng, n), folder);
    } catch (Failure const&) {
      return true;
    }
  }
  return false;
}

// By another reply, or by the machine, which stops the process, as writing to a wrong place may.
bool are_hits_caught_in(char const* name, std::size_t first = 0) {
  if (is_left_out(name)) return true;
  std::string const folder = broken_folder(name);
  return status_of_child([&] { return are_hits_caught(folder, first); }) != 0;
}

TEST(device_planted_bugs_in_unions_and_completion_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(!are_hits_caught(HYRECALL_EMULATED_FOLDER));
  CHECK(are_hits_caught_in("union_keeps_duplicates"));
  CHECK(are_hits_caught_in("pool_ranks_from_zero"));
  CHECK(are_hits_caught_in("pool_ranks_by_place"));
  CHECK(are_hits_caught_in("missing_score_is_zero"));
  CHECK(are_hits_caught_in("completed_leaves_turned", 2));
  CHECK(are_hits_caught_in("completed_escape_is_a_frequency", 5));
  CHECK(are_hits_caught_in("completed_tree_not_looked_at", 25));
  CHECK(are_hits_caught_in("whole_list_of_vectors_scores_zero", 3));
}

TEST(device_planted_bugs_in_submissions_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(are_hits_caught_in("list_of_another_query"));
  CHECK(are_hits_caught_in("count_of_another_query"));
  CHECK(are_hits_caught_in("vector_of_another_query"));
  CHECK(are_hits_caught_in("lost_queries_stay", 3));
  CHECK(are_hits_caught_in("second_arm_not_waited_for"));
  CHECK(are_hits_caught_in("second_arm_before_its_copy"));
}

// A warp of the machine that stands still for a while reads what others have written meanwhile.
TEST(device_planted_bugs_in_barriers_of_pools_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(are_hits_caught_in("union_counts_not_waited_for"));
  CHECK(are_hits_caught_in("union_counts_written_too_early", 17));
  CHECK(are_hits_caught_in("stride_of_a_sort_not_waited_for"));
  CHECK(are_hits_caught_in("sorted_records_not_waited_for", 2));
  CHECK(are_hits_caught_in("ranked_values_written_too_early"));
  CHECK(are_hits_caught_in("number_of_the_rest_not_waited_for", 2));
  CHECK(are_hits_caught_in("weights_not_waited_for"));
  CHECK(are_hits_caught_in("passing_hits_not_waited_for"));
}

TEST(device_planted_bugs_in_fusion_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(are_hits_caught_in("moments_in_the_order_of_documents", 5));
  CHECK(are_hits_caught_in("fused_ties_by_row"));
  CHECK(are_hits_caught_in("pool_of_an_empty_list_counts", 4));
  CHECK(are_hits_caught_in("strict_floor_of_fusion_ignored", 4));
  CHECK(are_hits_caught_in("worst_is_normalized_by", 80));
}

}  // namespace
}  // namespace hyrecall::testing
