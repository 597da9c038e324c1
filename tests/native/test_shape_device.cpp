// Dedup and MMR on the emulated device, against the host's.
#include "engine/dense/on_device.hpp"
#include "engine/shaping/on_device.hpp"
#include "kernels/shared/shape_job.hpp"
#include "native/dense_cases.hpp"
#include "native/emulated.hpp"
#include "native/planted.hpp"
#include "native/world.hpp"

namespace hyrecall::testing {
namespace {

// A batch of lists, a world's rows at random; some come several times.
struct ShapeLists {
  std::vector<std::int64_t> offsets{0};
  std::vector<double> scores;
  std::vector<std::uint32_t> segment;
  std::vector<Row> row;

  FusedListsView view() const { return {offsets, scores, segment, row}; }
};

ShapeLists shape_lists_of(Rng& rng, World const& world, std::size_t most) {
  ShapeLists out;
  for (std::size_t n_queries = 1 + rng.below(std::size_t{5}); n_queries > 0; --n_queries) {
    for (std::size_t n = rng.below(most + 1); n > 0; --n) {
      Doc const& doc = world.docs[rng.below(world.docs.size())];
      out.segment.push_back(doc.segment);
      out.row.push_back(doc.row);
      double const score = static_cast<double>(rng.below(7)) * 0.3 - 0.6;
      out.scores.push_back(rng.below(12) == 0 ? -0.0 : score);
    }
    out.offsets.push_back(static_cast<std::int64_t>(out.scores.size()));
  }
  return out;
}

std::vector<std::int64_t> shape_numbers(Rng& rng, std::size_t n, std::int64_t below) {
  std::vector<std::int64_t> out;
  for (std::size_t i = 0; i < n; ++i) out.push_back(rng.below(below));
  return out;
}

World shape_world(Rng& rng, std::size_t n) {
  WorldOptions options;
  options.max_rows = 40;
  options.n_segments = 1 + n % 3;
  options.dim = std::array{1u, 5u, 32u, 47u, 130u, 200u}[n % 6];
  options.dtype = n % 4 == 3 ? DType::kBFloat16 : DType::kFloat32;
  return random_world(rng, options);
}

Snapshot shape_on_device(Snapshot const& from, std::string const& folder) {
  Snapshot out = from;
  out.device = std::make_shared<DeviceSnapshot>(folder, 0, from, nullptr);
  return out;
}

void check_same(Selected const& found, Selected const& expected) {
  CHECK(found.offsets == expected.offsets);
  CHECK(found.entries == expected.entries);
}

bool have_same_bits(std::vector<double> const& a, std::vector<double> const& b) {
  return a.size() == b.size() && std::equal(a.begin(), a.end(), b.begin(), [](double x, double y) {
           return std::bit_cast<std::uint64_t>(x) == std::bit_cast<std::uint64_t>(y);
         });
}

// Gives how many entries are no more there.
std::size_t check_dedup(Rng& rng, std::size_t n, std::size_t most, std::string const& folder) {
  World const world = shape_world(rng, n);
  ShapeLists const lists = shape_lists_of(rng, world, most);
  bool const is_unit = rng.below(2) == 0;
  double threshold = std::array{0.98, 0.9, 0.5, 0.0, -0.5}[rng.below(std::size_t{5})];
  auto const first_list = static_cast<std::size_t>(lists.offsets[1]);
  if (n % 4 != 0 && first_list > 1) {
    // The cosine of two entries with the other one as query, or as it is: it is not above itself.
    auto const column = [&](std::size_t i) -> DenseColumn const& {
      return *world.snapshot.segments[lists.segment[i]]->segment().p.dense[0];
    };
    std::size_t const a = 1 + rng.below(first_list - 1);
    double const near = n % 4 == 1 ? row_cosine(column(0), lists.row[0], column(a), lists.row[a])
                                   : row_cosine(column(a), lists.row[a], column(0), lists.row[0]);
    threshold = is_unit ? unit_scale(near) : near;
  }
  std::vector<std::int64_t> preference;
  if (rng.below(2) == 0) preference = shape_numbers(rng, lists.row.size(), 3);
  DedupParams const params{0, threshold, is_unit, preference};
  Deduped const expected = dedup_lists(world.snapshot, lists.view(), params, 1);
  Snapshot const on_device = shape_on_device(world.snapshot, folder);
  auto const found = dedup_on_device(on_device, lists.view(), params);
  CHECK_EQ(found.has_value(), !lists.row.empty());
  if (!found) return 0;
  check_same(found->kept, expected.kept);
  CHECK(found->duplicates == expected.duplicates);
  CHECK(found->kept_for == expected.kept_for);
  return lists.row.size() - expected.kept.entries.size();
}

// Gives how many of the chosen are similar to one that was chosen before.
std::size_t check_mmr(Rng& rng, std::size_t n, std::size_t most, std::string const& folder) {
  World const world = shape_world(rng, n);
  ShapeLists const lists = shape_lists_of(rng, world, most);
  DiversifyParams params;
  params.relevance_weight = std::array{0.0, 0.3, 0.7, 1.0}[rng.below(std::size_t{4})];
  using enum RelevanceScale;
  params.scale = std::array{kRaw, kMax, kMinMax}[rng.below(std::size_t{3})];
  params.n_wanted = rng.below(std::size_t{30});
  std::vector<std::int64_t> tokens, budgets;
  if (rng.below(2) == 0) {
    tokens = shape_numbers(rng, lists.row.size(), 9);
    budgets = shape_numbers(rng, lists.view().n_queries(), 40);
  }
  params.tokens = tokens;
  params.budgets = budgets;
  Diversified const expected = diversify_lists(world.snapshot, lists.view(), params, 1);
  Snapshot const on_device = shape_on_device(world.snapshot, folder);
  auto const found = diversify_on_device(on_device, lists.view(), params);
  CHECK_EQ(found.has_value(), !lists.row.empty());
  if (!found) return 0;
  check_same(found->chosen, expected.chosen);
  CHECK(have_same_bits(found->value, expected.value));
  CHECK(have_same_bits(found->relevance, expected.relevance));
  CHECK(have_same_bits(found->similarity, expected.similarity));
  CHECK(found->nearest == expected.nearest);
  return static_cast<std::size_t>(std::count_if(expected.nearest.begin(), expected.nearest.end(),
                                                [](std::int64_t one) { return one >= 0; }));
}

TEST(device_dedup_keeps_what_the_host_keeps) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(51);
  std::size_t n_left_out = 0;
  for (std::size_t n = 0; n < cases(120u); ++n) {
    SeedOf const order(n % 4);
    n_left_out += check_dedup(rng, n, n % 20 == 19 ? 120 : 20, HYRECALL_EMULATED_FOLDER);
  }
  CHECK(n_left_out > cases(500u));
}

TEST(device_mmr_chooses_what_the_host_chooses) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(52);
  std::size_t n_near = 0;
  for (std::size_t n = 0; n < cases(150u); ++n) {
    SeedOf const order(n % 4);
    n_near += check_mmr(rng, n, n % 10 == 9 ? 300 : 40, HYRECALL_EMULATED_FOLDER);
  }
  CHECK(n_near > cases(500u));
}

TEST(device_shapes_lists_up_to_a_length_and_leaves_longer_ones_to_the_host) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(53);
  World const world = shape_world(rng, 1);
  Snapshot const on_device = shape_on_device(world.snapshot, HYRECALL_EMULATED_FOLDER);
  DiversifyParams params;
  params.relevance_weight = 0.5;
  params.n_wanted = 2;
  ShapeLists lists;
  for (std::size_t i = 0; i < kMostShaped; ++i) {
    Doc const& doc = world.docs[rng.below(world.docs.size())];
    lists.segment.push_back(doc.segment);
    lists.row.push_back(doc.row);
    lists.scores.push_back(rng.unit());
  }
  lists.offsets.push_back(kMostShaped);
  auto const n_launches = [&] {
    std::uint64_t const before = emulated().work().n_launches;
    Diversified const found = diversify_lists(on_device, lists.view(), params, 1);
    Diversified const expected = diversify_lists(world.snapshot, lists.view(), params, 1);
    check_same(found.chosen, expected.chosen);
    return emulated().work().n_launches - before;
  };
  CHECK_EQ(n_launches(), 1u);
  params.use_vectors = false;  // a budget alone reads no vector
  CHECK_EQ(n_launches(), 0u);
  params.use_vectors = true;
  lists.segment.push_back(0);
  lists.row.push_back(0);
  lists.scores.push_back(0.5);
  lists.offsets.back() += 1;
  CHECK_EQ(n_launches(), 0u);
}

// Where there is no room for the lists on the device, the CPU shapes them.
TEST(device_leaves_lists_that_do_not_fit_there_to_the_host) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  Rng rng(55);
  World const world = shape_world(rng, 1);
  Snapshot const on_device = shape_on_device(world.snapshot, HYRECALL_EMULATED_FOLDER);
  auto const lists_of = [&](std::size_t n) {
    ShapeLists out;
    for (std::size_t i = 1; i <= n; ++i) {
      out.segment.push_back(0);
      out.row.push_back(0);
      out.scores.push_back(rng.unit());
      if (i % 10 == 0) out.offsets.push_back(static_cast<std::int64_t>(i));
    }
    return out;
  };
  ShapeLists const lists = lists_of(300);
  ShapeLists const large = lists_of(1'000'000);
  DedupParams const dedup{0, 0.5, false, {}};
  DiversifyParams params;
  params.n_wanted = 10;
  Deduped const expected = dedup_lists(world.snapshot, lists.view(), dedup, 1);
  Diversified const chosen = diversify_lists(world.snapshot, lists.view(), params, 1);
  std::size_t n_on_host = 0;
  {
    MemoryOf const limit(1);
    // More than any search has: what idle ones keep is given back.
    n_on_host += diversify_on_device(on_device, large.view(), params).has_value() ? 0 : 1;
    n_on_host += dedup_on_device(on_device, lists.view(), dedup).has_value() ? 0 : 1;
    n_on_host += diversify_on_device(on_device, lists.view(), params).has_value() ? 0 : 1;
    check_same(dedup_lists(on_device, lists.view(), dedup, 1).kept, expected.kept);
    check_same(diversify_lists(on_device, lists.view(), params, 1).chosen, chosen.chosen);
  }
  CHECK_EQ(n_on_host, 3u);
  check_same(dedup_on_device(on_device, lists.view(), dedup).value().kept, expected.kept);
  check_same(diversify_on_device(on_device, lists.view(), params).value().chosen, chosen.chosen);
}

// ---- planted bugs (cmake/planted_bugs.cmake)

bool is_shaping_caught(std::string const& folder) {
  Rng rng(54);
  for (std::size_t n = 0; n < 80; ++n) {
    try {
      SeedOf const order(n % 4, folder);
      check_dedup(rng, n, 20, folder);
      check_mmr(rng, n, 40, folder);
    } catch (Failure const&) {
      return true;
    }
  }
  return false;
}

bool is_shaping_caught_in(char const* name) {
  if (is_left_out(name)) return true;
  std::string const folder = broken_folder(name);
  return status_of_child([&] { return is_shaping_caught(folder); }) != 0;
}

TEST(device_planted_bugs_in_dedup_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(!is_shaping_caught(HYRECALL_EMULATED_FOLDER));
  CHECK(is_shaping_caught_in("dedup_norms_turned"));
  CHECK(is_shaping_caught_in("dedup_joins_the_last_cluster"));
  CHECK(is_shaping_caught_in("dedup_within_a_block_not_seen"));
  CHECK(is_shaping_caught_in("dedup_prefers_the_last"));
  CHECK(is_shaping_caught_in("dedup_without_a_vector_joins"));
  CHECK(is_shaping_caught_in("dedup_found_not_waited_for"));
  CHECK(is_shaping_caught_in("dedup_clusters_not_waited_for"));
}

TEST(device_planted_bugs_in_mmr_are_caught) {
  once_for_both_kernels();
  skip_under_thread_sanitizer();
  CHECK(is_shaping_caught_in("shaped_norms_turned"));
  CHECK(is_shaping_caught_in("mmr_ties_by_the_last"));
  CHECK(is_shaping_caught_in("mmr_best_not_compared"));
  CHECK(is_shaping_caught_in("mmr_budget_not_spent"));
  CHECK(is_shaping_caught_in("mmr_range_from_the_first_run"));
  CHECK(is_shaping_caught_in("mmr_offers_not_waited_for"));
  CHECK(is_shaping_caught_in("mmr_choice_not_waited_for"));
  CHECK(is_shaping_caught_in("mmr_similarity_written_too_early"));
}

}  // namespace
}  // namespace hyrecall::testing
