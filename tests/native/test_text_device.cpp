// The lexical arm on the emulated device against the CPU's: the same documents, scores and order.
#include <cstdlib>

#include "core/error.hpp"
#include "engine/lexical/on_device.hpp"
#include "kernels/shared/lexical_job.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"
#include "native/text_cases.hpp"

namespace hyrecall::testing {
namespace {

// Few candidates, many stages.
constexpr DenseTuning kTightTexts{64, 1, 2};

struct TextRound {
  TextWorldOptions world;
  Bm25Variant variant = Bm25Variant::kLucene;
  std::size_t n_queries = 8;
  std::size_t depth = 10;
  std::optional<DenseTuning> tuning{};
  bool has_floor = false;
};

std::size_t check_round(Rng& rng, TextRound const& round,
                        std::string const& folder = HYRECALL_EMULATED_FOLDER) {
  Snapshot const on_host = random_text_world(rng, round.world);
  BatchRequest request =
      random_text_request(rng, round.world, round.variant, round.n_queries, round.depth);
  request.settings.tuning = round.tuning;
  if (round.has_floor) set_floor(rng, on_host, request);
  return check_texts(on_host, with_postings(on_host, folder), request);
}

// The n-th of a series that meets every variant, both widths, several segments and depths.
TextRound round_of(Rng& rng, std::size_t n) {
  TextRound out;
  out.variant = kBm25Variants[n % kBm25Variants.size()];
  out.world.is_wide = n % 5 == 4;
  out.world.sizes = {1 + rng.below(std::size_t{400}), 1 + rng.below(std::size_t{90})};
  out.world.vocabulary = n % 3 == 0 ? 6 : 40;
  out.world.n_cells = 1 + static_cast<int>(n % 6);
  out.world.has_dead = n % 4 != 0;
  out.depth = 1 + rng.below(std::size_t{n % 2 == 0 ? 12u : 200u});
  out.n_queries = 1 + rng.below(std::size_t{12});
  out.has_floor = n % 3 == 1;
  if (n % 7 == 5) out.tuning = kTightTexts;
  return out;
}

TEST(device_finds_the_texts_that_the_cpu_finds) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(1);
  std::size_t n_found = 0;
  for (std::size_t n = 0; n < 120; ++n) {
    SeedOf const order(n % 4);
    n_found += check_round(rng, round_of(rng, n));
  }
  CHECK(n_found > 200);
}

TEST(device_finds_texts_in_segments_of_several_document_tiles) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(2);
  std::size_t n_found = 0;
  for (std::size_t n = 0; n < 14; ++n) {
    TextRound round = round_of(rng, n);
    round.world.sizes = {8'192 + rng.below(std::size_t{12'000}), 1 + rng.below(std::size_t{200}),
                         8'000 + rng.below(std::size_t{400})};
    round.world.is_wide = false;
    round.depth = std::array{1, 10, 100, 1'000, 4'096}[n % 5];
    round.tuning = n % 3 == 1 ? std::optional(DenseTuning{20'000, 1, 2}) : std::nullopt;
    n_found += check_round(rng, round);
  }
  CHECK(n_found > 30);
}

TEST(device_finds_more_texts_than_it_sorts) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(3);
  TextRound round;
  round.world.sizes = {9'000, 300};
  round.world.vocabulary = 5;
  round.depth = 6'000;
  CHECK(check_round(rng, round) > 0);
}

TEST(device_finds_equal_texts_by_their_age) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(4);
  for (std::size_t depth : {1u, 7u, 100u}) {
    TextRound round;
    round.world.sizes = {9'000, 700};
    round.world.vocabulary = 2;
    round.world.max_words = 2;
    round.depth = depth;
    CHECK(check_round(rng, round) > 0);
  }
}

TEST(device_leaves_texts_to_the_cpu_whose_tree_has_many_leaves) {
  once_for_both_kernels();
  Rng rng(5);
  TextWorldOptions world;
  world.sizes = {300};
  world.vocabulary = 100;
  world.max_words = 60;
  Snapshot const on_host = random_text_world(rng, world);
  Snapshot const on_device = with_postings(on_host);
  BatchRequest request = random_text_request(rng, world, Bm25Variant::kLucene, 3, 20);
  auto const words_of = [](int n) {
    std::vector<TextQuery> out;
    for (int i = 0; i < n; ++i) out.push_back(TextQuery::of_text("w" + std::to_string(i)));
    return out;
  };
  auto const tree_of = [&](int n) {
    return TextQuery::any({TextQuery::all(words_of(2)), TextQuery::any(words_of(n))});
  };
  request.lexical[0].queries = {tree_of(32), tree_of(33), TextQuery::of_text("w1 w2")};
  CHECK_EQ(check_texts(on_host, on_device, request), 3u);
  Execution const here(on_host, request);
  Execution const there(on_device, request);
  CHECK((here.texts_on_host()[0] == std::vector<bool>{true, true, true}));
  CHECK((there.texts_on_host()[0] == std::vector<bool>{false, true, false}));
}

TEST(match_steps_say_what_the_tree_says) {
  Rng rng(6);
  auto const random_node = [&](auto const& self, int depth) -> MatchNode {
    MatchNode node;
    if (depth == 0 || rng.below(4) == 0) {
      node.kind = MatchNode::Kind::kLeaf;
      node.leaf = rng.below(std::uint32_t{kMostTreeLeaves});
      return node;
    }
    node.kind = rng.below(2) == 0 ? MatchNode::Kind::kAll : MatchNode::Kind::kAny;
    for (std::size_t n = rng.below(std::size_t{4}); n > 0; --n)
      node.children.push_back(self(self, depth - 1));
    return node;
  };
  std::size_t n_matches = 0;
  for (int round = 0; round < 3'000; ++round) {
    MatchNode const root = random_node(random_node, 1 + rng.below(6));
    auto const steps = match_steps_of(root);
    for (int set = 0; set < 8; ++set) {
      auto const held = static_cast<std::uint32_t>(rng.below(std::uint64_t{1} << 32) |
                                                   rng.below(std::uint64_t{1} << 32));
      bool const expected =
          root.matches([&](std::uint32_t leaf) { return (held >> leaf & 1) != 0; });
      CHECK_EQ(matches_tree(steps.data(), static_cast<std::uint32_t>(steps.size()), held),
               expected);
      n_matches += expected ? 1 : 0;
    }
  }
  CHECK(n_matches > 4'000 && n_matches < 20'000);
}

// Nested as deeply as can be, each time with a leaf of its own beside it.
TEST(match_steps_of_deep_trees_need_few_levels) {
  MatchNode node{MatchNode::Kind::kLeaf, 0, {}};
  for (std::uint32_t depth = 0; depth < 500; ++depth) {
    MatchNode parent;
    parent.kind = depth % 2 == 0 ? MatchNode::Kind::kAll : MatchNode::Kind::kAny;
    parent.children = {{MatchNode::Kind::kLeaf, depth % 32, {}}, std::move(node)};
    node = std::move(parent);
  }
  auto const steps = match_steps_of(node);
  CHECK(node.matches([](std::uint32_t) { return true; }));
  CHECK(matches_tree(steps.data(), static_cast<std::uint32_t>(steps.size()), ~0u));
  CHECK(!matches_tree(steps.data(), static_cast<std::uint32_t>(steps.size()), 0));
}

// ---- planted bugs (cmake/planted_bugs.cmake)

bool are_texts_caught(std::string const& folder) {
  Rng rng(7);
  for (std::size_t n = 0; n < 60; ++n) {
    TextRound round = round_of(rng, n);
    if (n % 6 == 5) round.world.sizes = {9'000};
    try {
      SeedOf const order(n % 4, folder);
      check_round(rng, round, folder);
    } catch (Failure const&) {
      return true;
    }
  }
  return false;
}

// By another reply, or by the machine, which stops the process.
bool are_texts_caught_in(char const* name) {
  if (is_left_out(name)) return true;
  std::string const folder = broken_folder(name);
  return is_fatal_in_a_child([&] {
    if (are_texts_caught(folder)) std::abort();
  });
}

TEST(device_planted_bugs_in_sums_of_texts_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(!are_texts_caught(HYRECALL_EMULATED_FOLDER));
  CHECK(are_texts_caught_in("leaf_order_turned"));
  CHECK(are_texts_caught_in("norm_of_another_scope"));
  CHECK(are_texts_caught_in("escape_added_with_the_next_leaf"));
  CHECK(are_texts_caught_in("run_of_the_tile_before"));
}

TEST(device_planted_bugs_in_the_choice_of_texts_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(are_texts_caught_in("text_mask_skipped"));
  CHECK(are_texts_caught_in("text_tile_full_by_its_beginning"));
  CHECK(are_texts_caught_in("presence_by_score"));
  CHECK(are_texts_caught_in("equals_of_the_tile_left_out"));
  CHECK(are_texts_caught_in("tree_not_looked_at"));
  CHECK(are_texts_caught_in("text_stage_skipped"));
}

TEST(device_planted_bugs_in_waiting_for_sums_stop_the_machine) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  auto const is_fatal = [](char const* name) {
    if (is_left_out(name)) return true;
    std::string const folder = broken_folder(name);
    return is_fatal_in_a_child([&] { are_texts_caught(folder); });
  };
  CHECK(is_fatal("barrier_between_leaves_missing"));
  CHECK(is_fatal("sums_not_awaited_after_a_visit"));
}

}  // namespace
}  // namespace hyrecall::testing
