// Tile masks, the best k, hashes of the table kind, and threads.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cfenv>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/fp_env.hpp"
#include "core/narrow_offsets.hpp"
#include "core/parallel.hpp"
#include "core/small_vector.hpp"
#include "core/types.hpp"
#include "engine/top_k.hpp"
#include "native/check.hpp"

namespace hyrecall::testing {
namespace {

TEST(tile_mask_ranges_equal_a_loop_over_bits) {
  for (Row begin = 0; begin <= kTileRows; ++begin) {
    for (Row end = begin; end <= kTileRows; ++end) {
      TileMask const mask = TileMask::range(begin, end);
      CHECK_EQ(mask.count(), static_cast<int>(end - begin));
      std::vector<Row> bits;
      for_each_bit(mask, [&](Row i) { bits.push_back(i); });
      CHECK_EQ(bits.size(), static_cast<std::size_t>(end - begin));
      for (Row i = 0; i < bits.size(); ++i) CHECK_EQ(bits[i], begin + i);
      CHECK_EQ(mask.any(), begin < end);
      CHECK_EQ(mask.is_all(), begin == 0 && end == kTileRows);
    }
  }
}

TEST(tile_mask_set_and_test_agree) {
  Rng rng(1);
  TileMask mask;
  std::set<Row> expected;
  for (int i = 0; i < 60; ++i) {
    Row const bit = rng.below(kTileRows);
    mask.set(bit);
    expected.insert(bit);
  }
  for (Row i = 0; i < kTileRows; ++i) {
    CHECK_EQ(mask.test(i), expected.contains(i));
    CHECK_EQ((~mask).test(i), !expected.contains(i));
  }
  CHECK((mask | ~mask).is_all());
  CHECK(!(mask & ~mask).any());
}

TEST(narrow_offsets_keep_all_bits) {
  constexpr std::uint64_t kStep = std::uint64_t{1} << 32;
  std::vector<std::vector<std::uint64_t>> cases{
      {},
      {0},
      {0, 5, 5, kStep - 1},
      {0, kStep - 1, kStep, kStep, kStep + 7, 3 * kStep + 1, 3 * kStep + 1},
      {2 * kStep, 2 * kStep, 2 * kStep + 1},
      {kStep - 1, 4 * kStep - 1, 4 * kStep}};
  Rng rng(3);
  std::vector<std::uint64_t> random{0};
  for (int i = 0; i < 1000; ++i)
    random.push_back(random.back() + rng.below(std::size_t{2}) * rng.below(std::size_t{1} << 31));
  cases.push_back(std::move(random));
  for (auto const& offsets : cases) {
    NarrowOffsets const narrow{std::span(offsets)};
    CHECK_EQ(narrow.size(), offsets.size());
    CHECK(narrow.wide() == offsets);
  }
}

TEST(small_vectors_do_as_vectors_do) {
  using Small = SmallVector<std::string, 2>;
  auto const same = [](Small const& small, std::vector<std::string> const& plain) {
    return std::equal(small.begin(), small.end(), plain.begin(), plain.end());
  };
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    Small small, other;
    std::vector<std::string> plain, other_plain;
    for (int step = 0; step < 30; ++step) {
      std::string const word(rng.below(std::size_t{40}), 'a' + static_cast<char>(step));
      switch (rng.below(std::size_t{7})) {
        case 0:
          small = other;
          plain = other_plain;
          break;
        case 1:
          other = std::move(small);
          other_plain = std::move(plain);
          small = {};
          plain = {};
          break;
        case 2:
          small = Small{word, "x"};
          plain = {word, "x"};
          break;
        case 3:
          small = Small(static_cast<std::size_t>(step % 5), word);
          plain = std::vector<std::string>(static_cast<std::size_t>(step % 5), word);
          break;
        default:
          if (!small.empty()) {
            small[0] += small.back();
            plain[0] += plain.back();
          }
          small.push_back(word);
          plain.push_back(word);
      }
      CHECK(same(small, plain));
      CHECK(same(other, other_plain));
      CHECK_EQ(small == other, plain == other_plain);
      CHECK((small <=> other) == (plain <=> other_plain));
      Small const copy(small);
      CHECK(same(copy, plain));
    }
  }
}

TEST(topk_equals_the_head_of_a_full_sort) {
  Rng rng(2);
  for (int round = 0; round < 300; ++round) {
    std::size_t const n = rng.below(std::size_t{200});
    std::size_t const k = rng.below(std::size_t{40});
    std::vector<Candidate> all;
    for (std::size_t i = 0; i < n; ++i) {
      // Few distinct scores: most of the order is decided by seq.
      all.push_back(
          {static_cast<float>(rng.below(5)), static_cast<Seq>(i), {0, static_cast<Row>(i)}});
    }
    std::shuffle(all.begin(), all.end(), std::mt19937_64(static_cast<unsigned>(round)));
    TopK whole(k);
    TopK joined_shares(k);
    auto const join = [&](TopK& one) {
      for (Candidate const& kept : one.take()) joined_shares.offer(kept);
    };
    TopK share(k);
    for (std::size_t i = 0; i < n; ++i) {
      whole.offer(all[i]);
      if (all[i].score >= share.threshold()) share.offer(all[i]);  // as the scans do
      if (i % 50 == 49) {
        join(share);
        share = TopK(k);
      }
    }
    join(share);
    std::sort(all.begin(), all.end());
    if (all.size() > k) all.resize(k);
    std::vector<Candidate> const best = whole.take();
    std::vector<Candidate> const joined = joined_shares.take();
    CHECK_EQ(best.size(), all.size());
    CHECK_EQ(joined.size(), all.size());
    for (std::size_t i = 0; i < all.size(); ++i) {
      CHECK_EQ(best[i].seq, all[i].seq);
      CHECK_EQ(joined[i].seq, all[i].seq);
    }
  }
}

TEST(parallel_for_runs_every_item_once_on_known_workers) {
  for (int threads : {1, 2, 5, 16}) {
    std::vector<std::atomic<int>> runs(1000);
    std::atomic<bool> worker_known{true};
    parallel_for(runs.size(), threads, [&](int worker, std::size_t item) {
      if (worker < 0 || worker >= threads) worker_known = false;
      runs[item].fetch_add(1);
    });
    for (auto const& n : runs) CHECK_EQ(n.load(), 1);
    CHECK(worker_known.load());
  }
}

TEST(parallel_for_gives_no_worker_number_to_two_threads_at_once) {
  std::vector<std::atomic<int>> inside(4);
  std::atomic<bool> shared{false};
  parallel_for(2000, 4, [&](int worker, std::size_t) {
    if (inside[static_cast<std::size_t>(worker)].fetch_add(1) != 0) shared = true;
    inside[static_cast<std::size_t>(worker)].fetch_sub(1);
  });
  CHECK(!shared.load());
}

TEST(parallel_for_rethrows_the_exception_and_serves_again) {
  for (int threads : {1, 4}) {
    bool caught = false;
    try {
      parallel_for(100, threads, [](int, std::size_t item) {
        if (item == 37) throw std::runtime_error("item 37");
      });
    } catch (std::runtime_error const& error) {
      caught = std::string(error.what()) == "item 37";
    }
    CHECK(caught);
    std::atomic<int> n{0};
    parallel_for(100, threads, [&](int, std::size_t) { n.fetch_add(1); });
    CHECK_EQ(n.load(), 100);
  }
}

TEST(parallel_for_may_be_nested) {
  std::atomic<int> n{0};
  parallel_for(8, 4, [&](int, std::size_t) {
    parallel_for(8, 4, [&](int, std::size_t) {
      parallel_for(4, 4, [&](int, std::size_t) { n.fetch_add(1); });
    });
  });
  CHECK_EQ(n.load(), 8 * 8 * 4);
}

TEST(parallel_for_gives_threads_round_to_nearest) {
  std::fenv_t caller;
  std::fegetenv(&caller);
  std::fesetround(FE_UPWARD);
  std::atomic<int> wrong{0};
  {
    FpEnvGuard const guard;  // as every native entry holds
    parallel_for(64, 4, [&](int, std::size_t) {
      if (std::fegetround() != FE_TONEAREST) wrong.fetch_add(1);
    });
  }
  bool const restored = std::fegetround() == FE_UPWARD;
  std::fesetenv(&caller);
  CHECK_EQ(wrong.load(), 0);
  CHECK(restored);
}

#if defined(__SSE2__) || defined(__aarch64__)
// As torch.set_flush_denormal(True) leaves a thread.
void flush_denormals() {
#if defined(__SSE2__)
  _mm_setcsr(_mm_getcsr() | 0x8040U);
#else
  std::uint64_t mode;
  asm volatile("mrs %0, fpcr" : "=r"(mode));
  asm volatile("msr fpcr, %0" : : "r"(mode | std::uint64_t{1} << 24) : "memory");
#endif
}

TEST(guards_keep_denormals_that_the_caller_flushes) {
  std::fenv_t caller;
  std::fegetenv(&caller);
  float const volatile least = 0x1p-126f;
  float volatile half = 0.0f;  // written before the mode changes again
  auto const is_kept = [&] {
    half = least * 0.5f;
    return half != 0.0f;
  };
  flush_denormals();
  bool const before = is_kept();
  bool inside = false;
  {
    FpEnvGuard const guard;
    inside = is_kept();
  }
  bool const after = is_kept();
  std::fesetenv(&caller);
  CHECK(!before);
  CHECK(inside);
  CHECK(!after);
}
#endif

TEST(parallel_for_works_in_a_forked_child) {
#if defined(__SANITIZE_THREAD__)
  throw Skip("ThreadSanitizer does not follow threads of a forked child");
#else
  parallel_for(16, 4, [](int, std::size_t) {
  });  // the parent's pool exists and its threads are not the child's
  pid_t const child = fork();
  if (child == 0) {
    alarm(10);  // a child that waits for its parent's threads is killed
    std::atomic<int> n{0};
    parallel_for(1000, 4, [&](int, std::size_t) { n.fetch_add(1); });
    _exit(n.load() == 1000 ? 0 : 1);
  }
  CHECK(child > 0);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFEXITED(status));
  CHECK_EQ(WEXITSTATUS(status), 0);
#endif
}

}  // namespace
}  // namespace hyrecall::testing
